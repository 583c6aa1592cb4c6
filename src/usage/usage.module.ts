import { Module } from '@nestjs/common';
import { DatabaseModule } from '../database/database.module.js';
import { UsageRecorder } from './usage-recorder.js';
import { UsageRepository } from './usage.repository.js';

@Module({ imports: [DatabaseModule], providers: [UsageRepository, UsageRecorder], exports: [UsageRecorder] })
export class UsageModule {}
