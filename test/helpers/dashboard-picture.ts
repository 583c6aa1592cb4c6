import { type EChartsOption, init } from 'echarts';
import type { Series } from './prometheus-server.js';

/** A panel of a Grafana dashboard, as far as the picture shows it. */
export interface Panel {
  readonly type: 'row' | 'stat' | 'timeseries';
  readonly title: string;
  readonly gridPos: { readonly x: number; readonly y: number; readonly w: number; readonly h: number };
  readonly targets?: readonly { readonly expr: string; readonly legendFormat?: string }[];
  readonly fieldConfig?: {
    readonly defaults: {
      readonly unit?: string;
      readonly custom?: { readonly stacking?: { readonly mode: string } };
      readonly mappings?: readonly { readonly options: Readonly<Record<string, { readonly text: string }>> }[];
    };
  };
}

/** A panel with the results of its queries, one for each target. */
export interface PanelData {
  readonly panel: Panel;
  readonly results: readonly (readonly Series[])[];
}

const COLUMN_PX = 66;
const ROW_PX = 30;
const GAP_PX = 8;
const TITLE_PX = 26;

/** Draws a dashboard in Grafana's layout as an HTML page without scripts. */
export function drawDashboard(title: string, panels: readonly PanelData[]): string {
  const height = Math.max(...panels.map(({ panel: { gridPos } }) => gridPos.y + gridPos.h)) * ROW_PX;
  return `<!doctype html><meta charset="utf-8"><title>${escape(title)}</title>
<style>
  body { margin: 0; background: #111217; color: #ccccdc; font: 13px sans-serif; }
  main { position: relative; width: ${24 * COLUMN_PX}px; height: ${height}px; margin: 12px; }
  section { position: absolute; box-sizing: border-box; background: #181b1f; border: 1px solid #2c3036; border-radius: 3px; overflow: hidden; }
  section.row { background: none; border: none; }
  h2 { font: bold 13px sans-serif; margin: 0; padding: 6px 8px; height: ${TITLE_PX - 12}px; }
  .stat { font: bold 30px sans-serif; text-align: center; padding-top: 14px; color: #73bf69; }
</style><main>${panels.map(drawPanel).join('')}</main>`;
}

function drawPanel({ panel, results }: PanelData): string {
  const { x, y, w, h } = panel.gridPos;
  const [width, height] = [w * COLUMN_PX - GAP_PX, h * ROW_PX - GAP_PX];
  const place = `left:${x * COLUMN_PX}px;top:${y * ROW_PX}px;width:${width}px;height:${height}px`;
  const body =
    panel.type === 'row'
      ? ''
      : panel.type === 'stat'
        ? drawStat(panel, results)
        : drawChart(panel, results, width, height);
  return `<section class="${panel.type}" style="${place}"><h2>${escape(panel.title)}</h2>${body}</section>`;
}

function drawStat({ fieldConfig }: Panel, results: PanelData['results']): string {
  const last = results[0]?.[0]?.values.at(-1)?.[1];
  const { unit, mappings = [] } = fieldConfig?.defaults ?? {};
  const mapped = mappings.map(({ options }) => options[last ?? '']?.text).find((text) => text !== undefined);
  return `<div class="stat">${escape(mapped ?? (last === undefined ? 'No data' : format(Number(last), unit)))}</div>`;
}

function drawChart(
  { targets = [], fieldConfig }: Panel,
  results: PanelData['results'],
  width: number,
  height: number,
): string {
  const { unit, custom } = fieldConfig?.defaults ?? {};
  const isStacked = custom?.stacking?.mode === 'normal';
  const lines = results.flatMap((series, index) =>
    series.map(({ metric, values }) => ({
      name: nameOf(targets[index]?.legendFormat ?? '', metric),
      type: 'line' as const,
      showSymbol: false,
      lineStyle: { width: 1.5 },
      ...(isStacked ? { stack: 'all', areaStyle: { opacity: 0.3 } } : {}),
      // A quotient of zero requests is not a number.
      data: values.map(([seconds, value]) => [seconds * 1_000, Number.isFinite(Number(value)) ? Number(value) : null]),
    })),
  );
  const option: EChartsOption = {
    animation: false,
    backgroundColor: 'transparent',
    grid: { left: 62, right: 14, top: 8, bottom: 62 },
    legend: {
      type: 'scroll',
      bottom: 2,
      icon: 'rect',
      itemHeight: 3,
      itemWidth: 14,
      textStyle: { color: '#ccccdc', fontSize: 10 },
    },
    xAxis: { type: 'time', axisLabel: { color: '#9fa7b3', fontSize: 10, hideOverlap: true, formatter: '{mm}:{ss}' } },
    yAxis: {
      type: 'value',
      splitNumber: 4,
      splitLine: { lineStyle: { color: '#2c3036' } },
      axisLabel: { color: '#9fa7b3', fontSize: 10, formatter: (value: number) => format(value, unit) },
    },
    series: lines,
  };
  const chart = init(null, 'dark', { renderer: 'svg', ssr: true, width, height: height - TITLE_PX });
  try {
    chart.setOption(option);
    return chart.renderToSVGString();
  } finally {
    chart.dispose();
  }
}

/** Grafana's legend: labels in double braces, or the labels of the series when there is no format. */
function nameOf(legendFormat: string, metric: Readonly<Record<string, string>>): string {
  const name = legendFormat.replace(/\{\{(\w+)\}\}/g, (_match, label: string) => metric[label] ?? '').trim();
  return name === '' ? Object.values(metric).join(' ') || 'value' : name;
}

function format(value: number, unit = 'none'): string {
  switch (unit) {
    case 's':
      return Math.abs(value) < 1 ? `${round(value * 1_000)} ms` : `${round(value)} s`;
    case 'percentunit':
      return `${round(value * 100)} %`;
    case 'bytes':
    case 'Bps':
      return `${round(value / 1_048_576)} MiB${unit === 'Bps' ? '/s' : ''}`;
    case 'reqps':
    case 'cps':
      return `${round(value)}/s`;
    default:
      return round(value);
  }
}

function round(value: number): string {
  return Number(value.toPrecision(3)).toLocaleString('en');
}

function escape(text: string): string {
  return text.replace(/[&<>"]/g, (character) => `&#${character.charCodeAt(0)};`);
}
