import { Module } from '@nestjs/common';
import { DatabaseListener } from './database-listener.js';
import { Pools } from './pools.js';
import { PrismaService } from './prisma.service.js';

@Module({
  providers: [Pools, PrismaService, DatabaseListener],
  exports: [Pools, PrismaService, DatabaseListener],
})
export class DatabaseModule {}
