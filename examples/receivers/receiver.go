// Run with: CREDENTIALS=client_id:client_secret SIGNING_SECRET=whsec_… PORT=4000 go run receiver.go
package main

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"log"
	"net/http"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"
)

var (
	basic   = "Basic " + base64.StdEncoding.EncodeToString([]byte(os.Getenv("CREDENTIALS")))
	key, _  = base64.StdEncoding.DecodeString(strings.TrimPrefix(os.Getenv("SIGNING_SECRET"), "whsec_"))
	handled sync.Map // In production, a table in your database
)

type notification struct {
	Type string `json:"notification_type"`
	Data struct {
		UserUUID string `json:"user_uuid"`
	} `json:"data"`
}

func isGenuine(header http.Header, body []byte) bool {
	sent, err := strconv.ParseInt(header.Get("webhook-timestamp"), 10, 64)
	if err != nil || time.Since(time.Unix(sent, 0)).Abs() > 5*time.Minute || !hmac.Equal([]byte(header.Get("authorization")), []byte(basic)) {
		return false
	}
	mac := hmac.New(sha256.New, key)
	fmt.Fprintf(mac, "%s.%d.%s", header.Get("webhook-id"), sent, body)
	expected := "v1," + base64.StdEncoding.EncodeToString(mac.Sum(nil))
	for _, each := range strings.Fields(header.Get("webhook-signature")) {
		if hmac.Equal([]byte(each), []byte(expected)) {
			return true
		}
	}
	return false
}

func receive(response http.ResponseWriter, request *http.Request) {
	body, err := io.ReadAll(http.MaxBytesReader(response, request.Body, 64<<10))
	var received notification
	if err != nil || request.Method != "POST" || !isGenuine(request.Header, body) {
		response.WriteHeader(http.StatusUnauthorized)
	} else if json.Unmarshal(body, &received) != nil {
		response.WriteHeader(http.StatusBadRequest)
	} else if _, known := handled.Load(request.Header.Get("webhook-id")); !known {
		fmt.Println(received.Type, received.Data.UserUUID)
		handled.Store(request.Header.Get("webhook-id"), true)
	}
}

func main() {
	if len(key) == 0 {
		log.Fatal("SIGNING_SECRET must be whsec_ and Base64")
	}
	log.Fatal(http.ListenAndServe("127.0.0.1:"+os.Getenv("PORT"), http.HandlerFunc(receive)))
}
