package hub

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"

	"resyncd/destination/websub"
)

// tokenMost is how many bytes of a hub.verify_token are kept.
const tokenMost = 2048

type form struct {
	websub.HubForm
	// old: in the manner of PubSubHubbub 0.3 (H-16, H-21)
	old bool
}

// readForm reads a request in the forms of websub.md 2.1 and 2.5. The error is fit for the answer.
func readForm(body []byte) (form, error) {
	names, body := plainForm(body)
	parsed, err := websub.ParseHubForm(body)
	f := form{HubForm: parsed}
	if err != nil {
		return f, err
	}
	switch f.Mode {
	case websub.ModePublish:
		f.old = !names.Has("hub.topic")
		return f, nil
	case websub.ModeSubscribe:
		if lease := names["hub.lease_seconds"]; len(lease) > 0 && lease[0] != "" && !positive(lease[0]) {
			return f, fmt.Errorf("hub.lease_seconds %.20q is no positive number of seconds", lease[0])
		}
	}
	if len(f.VerifyToken) > tokenMost {
		return f, fmt.Errorf("hub.verify_token has %d bytes, at most %d are allowed", len(f.VerifyToken), tokenMost)
	}
	f.old = f.Verify != ""
	if !f.old && strings.Join(names["hub.verify"], "") != "" {
		return f, errors.New("hub.verify names neither sync nor async") // what PubSubHubbub 0.3 calls an error
	}
	return f, nil
}

// positive holds a lease to H-03: a decimal integer above 0.
func positive(lease string) bool {
	return strings.Trim(lease, "0123456789") == "" && strings.Trim(lease, "0") != ""
}

// plainForm corrects what old publishers send: hub.url[] or hub.url[0] for a repeated name, and a newline behind it
// all.
func plainForm(body []byte) (url.Values, []byte) {
	names := url.Values{}
	pairs := strings.Split(strings.TrimRight(string(body), "\r\n"), "&")
	for i, pair := range pairs {
		name, value, _ := strings.Cut(pair, "=")
		if decoded, err := url.QueryUnescape(name); err == nil {
			name = decoded
		}
		if plain, index, ok := strings.Cut(name, "["); ok && strings.HasPrefix(plain, "hub.") && isIndex(index) {
			name = plain
			pairs[i] = plain + "=" + value
		}
		if decoded, err := url.QueryUnescape(value); err == nil {
			value = decoded
		}
		names[name] = append(names[name], value)
	}
	return names, []byte(strings.Join(pairs, "&"))
}

func isIndex(s string) bool {
	digits, ok := strings.CutSuffix(s, "]")
	return ok && strings.Trim(digits, "0123456789") == ""
}

// inQuery reports whether a request has all in its query and no body, as some publishers ping.
func inQuery(r *http.Request) bool {
	return r.ContentLength == 0 && r.URL.Query().Get("hub.mode") == string(websub.ModePublish)
}
