// go run orders.go [ORDER_ID]
package main

import (
	"encoding/json"
	"fmt"
	"io"
	"log"
	"math"
	"math/rand"
	"net/http"
	"os"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// Order has every field of the API. No field is required; a missing shipDate is nil.
type Order struct {
	ID       int64      `json:"id"`
	PetID    int64      `json:"petId"`
	Quantity int32      `json:"quantity"`
	ShipDate *time.Time `json:"shipDate"`
	Complete bool       `json:"complete"`
}

var client = &http.Client{
	Timeout:   60 * time.Second,
	Transport: &http.Transport{Proxy: http.ProxyFromEnvironment, IdleConnTimeout: 50 * time.Second},
}

// Ends the program if the URL or the key is malformed, which must not be repeated like a lost connection.
func newRequest(method, path, etag string) *http.Request {
	request, err := http.NewRequest(method, strings.TrimSuffix(os.Getenv("PETSTORE_URL"), "/")+path, nil)
	if err != nil || request.URL.Host == "" || !strings.HasPrefix(request.URL.Scheme, "http") {
		log.Fatal("PETSTORE_URL must be like https://api.example.com/v1.")
	}
	key := os.Getenv("PETSTORE_KEY")
	if !regexp.MustCompile("^[!-~]+$").MatchString(key) {
		log.Fatal("PETSTORE_KEY must be an API key.")
	}
	request.Header.Set("Authorization", "Bearer "+key)
	if etag != "" {
		request.Header.Set("If-None-Match", etag)
	}
	return request
}

func sendOnce(request *http.Request) (*http.Response, []byte, error) {
	response, err := client.Do(request)
	if err != nil {
		return nil, nil, err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body) // fails if the connection breaks before the end
	return response, body, err
}

// Retry-After is in seconds or, from some proxies, a date. 0 when it is missing, invalid or in the past.
func retryAfterSeconds(value string) float64 {
	if seconds, err := strconv.ParseUint(value, 10, 32); err == nil {
		return float64(seconds)
	}
	if date, err := http.ParseTime(value); err == nil {
		return math.Max(0, time.Until(date).Seconds())
	}
	return 0
}

func send(method, path, etag string) (*http.Response, []byte) {
	request := newRequest(method, path, etag)
	for attempt := 1; ; attempt++ {
		wait := 0.0
		response, body, err := sendOnce(request)
		if err == nil {
			switch response.StatusCode {
			case 429, 502, 503, 504:
				wait = retryAfterSeconds(response.Header.Get("Retry-After"))
				err = fmt.Errorf("%s", body)
			default:
				return response, body
			}
		}
		if attempt == 5 || wait > 90 {
			log.Fatal(err)
		}
		wait += rand.Float64() * math.Pow(2, float64(attempt-1))
		time.Sleep(time.Duration(wait * float64(time.Second)))
	}
}

func main() {
	response, body := send("GET", "/store/orders", "")
	if response.StatusCode != 200 {
		log.Fatalf("%s", body)
	}
	var orders []Order
	if err := json.Unmarshal(body, &orders); err != nil { // fails if the list is incomplete
		log.Fatal(err)
	}
	for _, order := range orders {
		fmt.Println(order.ID, order.PetID)
	}

	if etag := response.Header.Get("ETag"); etag != "" {
		again, _ := send("GET", "/store/orders", etag)
		fmt.Println(map[bool]string{true: "unchanged", false: "changed"}[again.StatusCode == 304])
	}

	if len(os.Args) > 1 {
		response, body := send("DELETE", "/store/orders/"+os.Args[1], "")
		outcome := struct{ Code string }{"cancelled"}
		if response.StatusCode != 204 {
			outcome.Code = strconv.Itoa(response.StatusCode)
			_ = json.Unmarshal(body, &outcome) // fails if a proxy sends HTML, and the status stays
		}
		// If the response to an earlier attempt was lost, the order is cancelled already.
		if outcome.Code == "order_already_cancelled" {
			outcome.Code = "cancelled"
		}
		fmt.Printf("%s: %s\n", os.Args[1], outcome.Code)
		if outcome.Code != "cancelled" {
			os.Exit(1)
		}
	}
}
