import { ReplicationLag } from '../../../../src/orders/list/replication-lag.js';

describe('ReplicationLag', () => {
  it('is 0 while the standby has replayed what the primary had written at the last observation', () => {
    const lag = new ReplicationLag();
    expect(lag.observe(0, 100, 100)).toBe(0);
    expect(lag.observe(1_000, 200, 150)).toBe(0);
    expect(lag.observe(2_000, 300, 250)).toBe(0);
  });

  it('does not grow while the primary is idle', () => {
    const lag = new ReplicationLag();
    lag.observe(0, 100, 100);
    expect(lag.observe(3_600_000, 100, 100)).toBe(0);
  });

  it('is the age of the first position that the standby has not replayed', () => {
    const lag = new ReplicationLag();
    lag.observe(0, 100, 50);
    lag.observe(1_000, 200, 50);
    expect(lag.observe(2_000, 300, 50)).toBe(2_000);
    expect(lag.observe(3_000, 400, 100)).toBe(2_000);
    expect(lag.observe(4_000, 500, 400)).toBe(0);
  });

  it('grows while the standby does not respond', () => {
    const lag = new ReplicationLag();
    lag.observe(0, 100, 100);
    lag.observe(1_000, 200, undefined);
    expect(lag.observe(5_000, 300, undefined)).toBe(4_000);
  });

  it('is within 3 % after a day behind, although few positions are kept', () => {
    const lag = new ReplicationLag();
    const day = 86_400;
    let at = 0;
    for (; at < day; at++) {
      lag.observe(at * 1_000, at, 0);
    }
    const half = lag.observe(at * 1_000, at, day / 2);
    expect(half).toBeGreaterThan((day / 2) * 1_000 * 0.97);
    expect(half).toBeLessThanOrEqual((day / 2) * 1_000);
  });
});
