import { Module } from '@nestjs/common';
import { UnmatchedController } from './unmatched.controller.js';

@Module({ controllers: [UnmatchedController] })
export class UnmatchedModule {}
