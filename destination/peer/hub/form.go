package hub

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"

	"resyncd/destination/websub"
)

// tokenMost is how many bytes of a hub.verify_token are kept, as long as the subscription.
const tokenMost = 2048

// form is what a subscriber or publisher asks, and in which dialect.
type form struct {
	websub.HubForm
	// old: in the manner of PubSubHubbub 0.3, with hub.verify, or a ping that knows hub.url only (H-16, H-21).
	old bool
}

// readForm reads a request in any of the forms of websub.md 2.1 and 2.5, and holds it to what is left of H-03 for a
// hub. The error is fit for the answer.
func readForm(body []byte) (form, error) {
	names, body := plainForm(body)
	parsed, err := websub.ParseHubForm(body)
	f := form{HubForm: parsed}
	if err != nil {
		return f, err
	}
	switch f.Mode {
	case websub.ModePublish:
		f.old = !names.has("hub.topic")
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

// positive holds a lease to H-03: a decimal integer above 0, without blanks or signs around it.
func positive(lease string) bool {
	return strings.Trim(lease, "0123456789") == "" && strings.Trim(lease, "0") != ""
}

// formNames are the values of a form by name, in order.
type formNames url.Values

func (n formNames) has(name string) bool { return len(n[name]) > 0 }

// plainForm writes a form as the specification has it: the libraries of old publishers send hub.url[], hub.url[0] and so
// on where a name is repeated, and some tools a newline behind it all.
func plainForm(body []byte) (formNames, []byte) {
	names := formNames{}
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

// isIndex reports whether s ends a name like hub.url[] or hub.url[12].
func isIndex(s string) bool {
	digits, ok := strings.CutSuffix(s, "]")
	return ok && strings.Trim(digits, "0123456789") == ""
}

// inQuery reports whether a request has everything in its query and nothing in its body, as some publishers ping. Content
// beside a query is none of these.
func inQuery(r *http.Request) bool {
	return r.ContentLength == 0 && r.URL.Query().Get("hub.mode") == string(websub.ModePublish)
}
