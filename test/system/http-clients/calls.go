// Run by http-clients.test.ts: makes the same calls with net/http and prints what each gave.
package main

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"regexp"
	"strconv"
)

type hotel struct {
	ID         string  `json:"id"`
	ChannelID  *string `json:"channel_id"`
	RegistryID *int64  `json:"registry_id"`
}

type answer struct {
	status int
	header http.Header
	body   []byte
}

var base, key = os.Getenv("HOTEL_API_URL"), os.Getenv("HOTEL_API_KEY")

func must(err error) {
	if err != nil {
		panic(err)
	}
}

func send(method, path string, body []byte, headers map[string]string) answer {
	relative, err := url.Parse(path)
	must(err)
	address, err := url.Parse(base)
	must(err)
	request, err := http.NewRequest(method, address.ResolveReference(relative).String(), bytes.NewReader(body))
	must(err)
	request.Header.Set("x-api-key", key)
	for name, value := range headers {
		request.Header.Set(name, value)
	}
	response, err := http.DefaultClient.Do(request)
	must(err)
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	must(err)
	return answer{response.StatusCode, response.Header, text}
}

func get(path string) answer { return send("GET", path, nil, nil) }

func post(path string, value any) answer {
	body, err := json.Marshal(value)
	must(err)
	return send("POST", path, body, map[string]string{"content-type": "application/json"})
}

func parsed[T any](body []byte) T {
	var value T
	must(json.Unmarshal(body, &value))
	return value
}

func main() {
	next := regexp.MustCompile(`<([^>]*)>; rel="next"`)
	hotels := []hotel{}
	for path := "/hotels?limit=100"; path != ""; {
		page := get(path)
		at, err := url.Parse(path)
		must(err)
		hotels = append(hotels, parsed[[]hotel](page.body)...)
		path = ""
		if link := next.FindStringSubmatch(page.header.Get("link")); link != nil {
			next, err := at.Parse(link[1])
			must(err)
			path = next.String()
		}
	}

	path := "/hotels/" + url.PathEscape(hotels[0].ID)
	single := get(path)
	head := send("HEAD", path, nil, nil)
	unchanged := send("GET", path, nil, map[string]string{"if-none-match": single.header.Get("etag")})
	missing := get("/hotels/missing")
	unauthorized := send("GET", path, nil, map[string]string{"x-api-key": "wrong"})

	channelIDs := []string{}
	registryID := ""
	for _, each := range hotels {
		if each.ChannelID != nil && len(channelIDs) < 1000 {
			channelIDs = append(channelIDs, *each.ChannelID)
		}
		if each.RegistryID != nil && registryID == "" {
			registryID = strconv.FormatInt(*each.RegistryID, 10)
		}
	}
	batch := post("/hotels/channel/batch", map[string]any{"channel_ids": channelIDs})
	found := parsed[[]hotel](batch.body)
	inOrder := true
	for i, each := range found {
		inOrder = inOrder && *each.ChannelID == channelIDs[i]
	}
	wrong := post("/hotels/channel/batch", map[string]any{"channel_ids": []any{"a", 1}})
	registry := post("/hotels/registry/batch", map[string]any{"registry_ids": []string{"9007199254740993", registryID}})
	var body bytes.Buffer
	writer := gzip.NewWriter(&body)
	writer.Write([]byte(`{"channel_ids":[]}`))
	must(writer.Close())
	packed := send("POST", "/hotels/channel/batch", body.Bytes(), map[string]string{"content-encoding": "gzip"})

	type changes struct {
		Changes []struct {
			ID    string `json:"id"`
			Hotel *hotel `json:"hotel"`
		} `json:"changes"`
		Next string `json:"next"`
		More bool   `json:"more"`
	}
	copied := map[string]hotel{}
	for after, more := "", true; more; {
		page := parsed[changes](get("/changes?limit=1000" + after).body)
		for _, change := range page.Changes {
			if change.Hotel != nil {
				copied[change.ID] = *change.Hotel
			}
		}
		after, more = "&after="+url.QueryEscape(page.Next), page.More
	}

	length, _ := strconv.Atoi(head.header.Get("content-length"))
	printed, err := json.Marshal(map[string]any{
		"listed":          len(hotels),
		"single":          []any{single.status, parsed[hotel](single.body).ID},
		"head":            []any{head.status, length > 0, len(head.body)},
		"unchanged":       []any{unchanged.status, len(unchanged.body)},
		"missing":         []any{missing.status, missing.header.Get("x-error-code"), parsed[map[string]string](missing.body)["error"]},
		"unauthorized":    []any{unauthorized.status, unauthorized.header.Get("x-error-code"), unauthorized.header.Get("www-authenticate")},
		"batch":           []any{batch.status, len(found), inOrder},
		"wrongElement":    []any{wrong.status, wrong.header.Get("x-error-code"), wrong.header.Get("x-error-position")},
		"largeRegistryId": []any{registry.status, len(parsed[[]hotel](registry.body))},
		"packedBody":      []any{packed.status, packed.header.Get("x-error-code"), packed.header.Get("accept-encoding")},
		"copied":          len(copied),
	})
	must(err)
	fmt.Println(string(printed))
}
