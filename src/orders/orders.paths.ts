import { API_VERSION } from '../http/api-path.js';

/** The paths of the order operations, as Nest and the document see them. */
export const ORDERS_PATH = `${API_VERSION}/store/orders`;

/** The same paths as route templates, for metrics, logs and spans. */
export const ORDER_ROUTES = [`/${ORDERS_PATH}`, `/${ORDERS_PATH}/{orderId}`] as const;
