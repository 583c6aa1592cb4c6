// The same interface in Go with net/http, pgx and redigo, as an experienced engineer would write it: the statements, the key
// cache and the Lua script of the Fastify peer, the list row by row into a buffered writer.
package main

import (
	"bufio"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"log"
	"net"
	"net/http"
	"os"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/jackc/pgx/v4"
	"github.com/jackc/pgx/v4/pgxpool"
)

const (
	ordersPath  = "/v1/store/orders"
	keyCacheTTL = 5 * time.Second
	minute      = int64(60)
	day         = int64(86400)
)

const take = `
local minute = tonumber(redis.call('GET', KEYS[1]) or '0')
local day = tonumber(redis.call('GET', KEYS[2]) or '0')
if minute >= tonumber(ARGV[1]) or day >= tonumber(ARGV[2]) then
  return {0, minute, day}
end
minute = redis.call('INCR', KEYS[1])
if minute == 1 then redis.call('EXPIRE', KEYS[1], 60) end
day = redis.call('INCR', KEYS[2])
if day == 1 then redis.call('EXPIRE', KEYS[2], 86400) end
return {1, minute, day}`

var (
	bearer  = regexp.MustCompile(`(?i)^bearer +(\S+)$`)
	orderID = regexp.MustCompile(`^-?(?:0|[1-9]\d{0,18})$`)
	plans   = map[string]quotas{"free": {60, 1_000}, "pro": {300, 10_000}, "business": {1_000, 100_000}}
)

type quotas struct{ perMinute, perDay int64 }

type key struct {
	id     string
	quotas quotas
}

type cachedKey struct {
	key     *key
	expires time.Time
}

type order struct {
	ID       int64   `json:"id"`
	PetID    int64   `json:"petId"`
	Quantity int32   `json:"quantity"`
	ShipDate *string `json:"shipDate,omitempty"`
	Complete bool    `json:"complete"`
}

type apiError struct {
	Code    string `json:"code"`
	Message string `json:"message"`
	Status  int    `json:"status"`
}

type server struct {
	db    *pgxpool.Pool
	redis *redis.Pool
	take  *redis.Script
	keys  sync.Map
}

func main() {
	config, err := pgxpool.ParseConfig(os.Getenv("DATABASE_URL"))
	if err != nil {
		log.Fatal(err)
	}
	config.MaxConns = 20
	db, err := pgxpool.ConnectConfig(context.Background(), config)
	if err != nil {
		log.Fatal(err)
	}
	pool := &redis.Pool{MaxIdle: 64, Dial: func() (redis.Conn, error) { return redis.DialURL(os.Getenv("REDIS_URL")) }}
	s := &server{db: db, redis: pool, take: redis.NewScript(2, take)}
	log.Fatal(http.ListenAndServe("127.0.0.1:"+os.Getenv("PORT"), s))
}

func (s *server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	key, err := s.findKey(r)
	if err != nil {
		reject(w, http.StatusInternalServerError, "internal_error", err.Error())
		return
	}
	host, _, _ := net.SplitHostPort(r.RemoteAddr)
	subject, limits := "address:"+host, plans["free"]
	if key != nil {
		subject, limits = "key:"+key.id, key.quotas
	}
	admitted, err := s.count(w.Header(), subject, limits)
	id := strings.TrimPrefix(r.URL.Path, ordersPath+"/")
	switch {
	case err != nil:
		reject(w, http.StatusInternalServerError, "internal_error", err.Error())
	case !admitted:
		reject(w, http.StatusTooManyRequests, "rate_limit_exceeded", "The rate limit is exceeded.")
	case key == nil:
		reject(w, http.StatusUnauthorized, "invalid_api_key", "The API key is not valid.")
	case r.URL.Path == ordersPath && r.Method == http.MethodGet:
		s.list(w, r)
	case id != r.URL.Path && r.Method == http.MethodDelete:
		s.cancel(w, r, id)
	default:
		reject(w, http.StatusNotFound, "route_not_found", "Path not found.")
	}
}

func (s *server) findKey(r *http.Request) (*key, error) {
	match := bearer.FindStringSubmatch(r.Header.Get("Authorization"))
	if match == nil {
		return nil, nil
	}
	digest := sha256.Sum256([]byte(match[1]))
	if entry, ok := s.keys.Load(digest); ok && time.Now().Before(entry.(cachedKey).expires) {
		return entry.(cachedKey).key, nil
	}
	found, err := s.lookUp(r.Context(), digest[:])
	if err == nil {
		s.keys.Store(digest, cachedKey{found, time.Now().Add(keyCacheTTL)})
	}
	return found, err
}

func (s *server) lookUp(ctx context.Context, digest []byte) (*key, error) {
	var id, plan string
	var perMinute, perDay *int32
	err := s.db.QueryRow(ctx, `SELECT id::text, plan::text, requests_per_minute, requests_per_day FROM api_keys
		WHERE key_hash = $1 AND revoked_at IS NULL AND (expires_at IS NULL OR expires_at > now())`, digest).
		Scan(&id, &plan, &perMinute, &perDay)
	if errors.Is(err, pgx.ErrNoRows) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	if limits, ok := plans[plan]; ok {
		return &key{id, limits}, nil
	}
	return &key{id, quotas{int64(*perMinute), int64(*perDay)}}, nil
}

// count counts the request in both windows and sets the limit headers of the window with fewer remaining requests.
func (s *server) count(header http.Header, subject string, limits quotas) (bool, error) {
	now := time.Now().Unix()
	conn := s.redis.Get()
	defer conn.Close()
	used, err := redis.Int64s(s.take.Do(conn,
		fmt.Sprintf("go:{%s}:m:%d", subject, now/minute), fmt.Sprintf("go:{%s}:d:%d", subject, now/day),
		limits.perMinute, limits.perDay))
	if err != nil {
		return false, err
	}
	limit, left, window := limits.perDay, max(0, limits.perDay-used[2]), day
	if minuteLeft := max(0, limits.perMinute-used[1]); minuteLeft < left {
		limit, left, window = limits.perMinute, minuteLeft, minute
	}
	reset := (now/window + 1) * window
	header.Set("X-RateLimit-Limit", strconv.FormatInt(limit, 10))
	header.Set("X-RateLimit-Remaining", strconv.FormatInt(left, 10))
	header.Set("X-RateLimit-Reset", strconv.FormatInt(reset, 10))
	if used[0] == 0 {
		header.Set("Retry-After", strconv.FormatInt(max(1, reset-now), 10))
	}
	return used[0] == 1, nil
}

func (s *server) cancel(w http.ResponseWriter, r *http.Request, text string) {
	id, err := strconv.ParseInt(text, 10, 64)
	if err != nil || !orderID.MatchString(text) {
		reject(w, http.StatusBadRequest, "invalid_order_id", "The order id is not an integer.")
		return
	}
	result, err := s.db.Exec(r.Context(),
		"UPDATE orders SET status = 'cancelled', cancelled_at = now() WHERE id = $1 AND status = 'pending'", id)
	if err == nil && result.RowsAffected() == 1 {
		w.WriteHeader(http.StatusNoContent)
		return
	}
	var status string
	if err == nil {
		err = s.db.QueryRow(r.Context(), "SELECT status::text FROM orders WHERE id = $1", id).Scan(&status)
	}
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		reject(w, http.StatusNotFound, "order_not_found", "No order has this id.")
	case err != nil:
		reject(w, http.StatusInternalServerError, "internal_error", err.Error())
	case status == "shipped":
		reject(w, http.StatusConflict, "order_already_shipped", "The order has already shipped.")
	default:
		reject(w, http.StatusConflict, "order_already_cancelled", "The order has already been cancelled.")
	}
}

func (s *server) list(w http.ResponseWriter, r *http.Request) {
	rows, err := s.db.Query(r.Context(), "SELECT id, pet_id, quantity, ship_date, complete FROM orders ORDER BY id")
	if err != nil {
		reject(w, http.StatusInternalServerError, "internal_error", err.Error())
		return
	}
	defer rows.Close()
	w.Header().Set("Content-Type", "application/json")
	out := bufio.NewWriterSize(w, 65536)
	separator := "["
	for rows.Next() {
		var row order
		var shipDate *time.Time
		if err := rows.Scan(&row.ID, &row.PetID, &row.Quantity, &shipDate, &row.Complete); err != nil {
			panic(http.ErrAbortHandler)
		}
		if shipDate != nil {
			text := shipDate.UTC().Format("2006-01-02T15:04:05.000Z")
			row.ShipDate = &text
		}
		encoded, _ := json.Marshal(row)
		out.WriteString(separator)
		out.Write(encoded)
		separator = ","
	}
	if rows.Err() != nil {
		panic(http.ErrAbortHandler)
	}
	if separator == "[" {
		out.WriteString("[")
	}
	out.WriteString("]")
	out.Flush()
}

func reject(w http.ResponseWriter, status int, code, message string) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(apiError{code, message, status})
}

func max(a, b int64) int64 {
	if a > b {
		return a
	}
	return b
}
