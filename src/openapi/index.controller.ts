import { Controller, Get, Inject, Req, Res } from '@nestjs/common';
import { ApiExcludeController } from '@nestjs/swagger';
import type { Request, Response } from 'express';
import { CONFIG, type Config } from '../config/config.js';
import { Public } from '../http/decorators.js';
import { API_VERSION, DOCS_PATH } from '../http/paths.js';

/** `/`: leads a browser to Swagger UI, and tells a program where things are. */
@ApiExcludeController()
@Public()
@Controller()
export class IndexController {
  constructor(@Inject(CONFIG) private readonly config: Config) {}

  /** A program that accepts everything, as curl does, gets JSON. The paths are relative to the address of the service. */
  @Get()
  index(@Req() req: Request, @Res() res: Response): void {
    const { docsEnabled } = this.config;
    res.vary('Accept');
    if (docsEnabled && req.accepts('json', 'html') === 'html') {
      // Relative, because a proxy may serve all of this below a path.
      res.redirect(DOCS_PATH.slice(1));
    } else {
      const docs = docsEnabled ? { docs: DOCS_PATH, openapi: `${DOCS_PATH}/openapi.json` } : {};
      res.json({ api: `/${API_VERSION}`, health: '/health/ready', ...docs });
    }
  }
}
