import { Metrics } from '../../../src/metrics/metrics.js';

describe('Metrics', () => {
  it('begins the series that alerts read with 0', async () => {
    const text = await new Metrics().registry.metrics();
    for (const series of [
      'petstore_lists_total{end="cut"}',
      'petstore_list_pieces_total{source="database"}',
      'petstore_limiter_decisions_total{plan="anonymous",outcome="limited"}',
      'petstore_limiter_bans_total{subject="key"}',
      'petstore_cancel_lock_waits_total',
      'petstore_usage_lost_requests_total',
    ]) {
      expect(text).toContain(`\n${series} 0\n`);
    }
  });

  it('leaves out a label that does not apply', async () => {
    const { requestDurations, registry } = new Metrics();
    const route = { http_request_method: 'GET', http_route: '/v1/store/orders' };
    requestDurations.labels({ ...route, http_response_status_code: 200 }).observe(0.2);
    requestDurations.labels({ ...route, error_type: 'aborted' }).observe(0.2);
    const counts = (await registry.metrics()).match(/^http_server_request_duration_seconds_count.*$/gm);
    expect(counts).toEqual([
      'http_server_request_duration_seconds_count{http_request_method="GET",http_route="/v1/store/orders",http_response_status_code="200"} 1',
      'http_server_request_duration_seconds_count{http_request_method="GET",http_route="/v1/store/orders",error_type="aborted"} 1',
    ]);
  });
});
