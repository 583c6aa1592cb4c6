import { committedDocument } from '../helpers/contract.js';
import { startTestService } from '../helpers/test-service.js';

interface Server {
  url: string;
  description: string;
}

async function servedServers(environment: Record<string, string>): Promise<Server[]> {
  const service = await startTestService({ environment });
  try {
    const response = await fetch(`${service.baseUrl}/docs/openapi.json`);
    return ((await response.json()) as { servers: Server[] }).servers;
  } finally {
    await service.stop();
  }
}

const PUBLIC_BASE_URL = 'https://api.example.com/v1';
const STAGING_BASE_URL = 'https://staging.example.com/v1';

describe('the servers of the document', () => {
  it('are production and staging in openapi.json, both ending in /v1', () => {
    const { servers } = committedDocument() as unknown as { servers: Server[] };
    expect(servers.map(({ url, description }) => [description, url])).toEqual([
      ['Production', 'https://{productionHost}/v1'],
      ['Staging', 'https://{stagingHost}/v1'],
    ]);
  });

  it('start with the service itself when PUBLIC_BASE_URL is not set, so that Try it out calls it', async () => {
    expect((await servedServers({})).map(({ url }) => url)).toEqual([
      '/v1',
      'https://{productionHost}/v1',
      'https://{stagingHost}/v1',
    ]);
  });

  it('are the configured ones when both are set', async () => {
    expect((await servedServers({ PUBLIC_BASE_URL, STAGING_BASE_URL })).map(({ url }) => url)).toEqual([
      PUBLIC_BASE_URL,
      STAGING_BASE_URL,
    ]);
  });
});
