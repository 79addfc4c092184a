package websub

import (
	"errors"
	"fmt"
	"slices"
	"strings"
)

const (
	maxSecret    = 199 // websub.md 2.1
	maxPublished = 100 // topics in one ping (P-03)
)

// HubForm is a request of a subscriber or publisher to a hub.
type HubForm struct {
	Mode     Mode
	Callback string
	Topic    string
	Secret   string // "" for none
	// Verify is "sync" or "async" of PubSubHubbub 0.3; "" is WebSub (H-21).
	Verify      string
	VerifyToken string
	// Lease is in seconds, 0 for the hub's choice; it may be absurdly long.
	Lease  int64
	Topics []string // of ModePublish (H-16)
}

// ParseHubForm parses the body of a POST to a hub and holds it to H-01 and H-03. Unknown parameters are ignored, and so
// are lease and secret where a mode does not use them.
//
// The error may be sent as the answer: it repeats neither callback nor secret. What could be read is returned with it.
func ParseHubForm(body []byte) (HubForm, error) {
	v, err := decode(string(body))
	if err != nil {
		return HubForm{}, err
	}
	f := HubForm{Mode: Mode(v.get("hub.mode"))}
	switch f.Mode {
	case ModePublish:
		err = f.publish(v)
	case ModeSubscribe, ModeUnsubscribe:
		err = f.subscribe(v)
	case "":
		err = errors.New("hub.mode is missing")
	default:
		err = fmt.Errorf("hub.mode %q is not known", shorten(string(f.Mode), 20))
	}
	return f, err
}

func (f *HubForm) subscribe(v values) error {
	f.Callback, f.Topic = v.get("hub.callback"), v.get("hub.topic")
	for _, p := range [...]param{{"hub.callback", f.Callback}, {"hub.topic", f.Topic}} {
		if p.value == "" {
			return fmt.Errorf("%s is missing", p.name)
		}
		if err := checkPeerURL(p.value); err != nil {
			return fmt.Errorf("%s cannot be used: %w", p.name, err)
		}
	}
	old := f.verify(v)
	f.VerifyToken = v.get("hub.verify_token")
	if f.Mode == ModeUnsubscribe {
		return nil
	}
	if f.Secret = v.get("hub.secret"); len(f.Secret) > maxSecret {
		return fmt.Errorf("hub.secret has %d bytes, at most %d are allowed", len(f.Secret), maxSecret)
	}
	lease, given := v.lookup("hub.lease_seconds")
	if !given || old && lease == "" { // an empty one was "for ever" in 0.3
		return nil
	}
	var ok bool
	if f.Lease, ok = parseLease(lease); !ok {
		return fmt.Errorf("hub.lease_seconds %q is no positive number of seconds", shorten(lease, 20))
	}
	return nil
}

// hub.verify may be repeated or hold a list.
func (f *HubForm) verify(v values) (given bool) {
	for _, p := range v {
		if p.name != "hub.verify" {
			continue
		}
		given = true
		for word := range strings.SplitSeq(p.value, ",") {
			word = strings.ToLower(strings.Trim(word, blanks))
			if f.Verify == "" && (word == "sync" || word == "async") {
				f.Verify = word
			}
		}
	}
	return given
}

func (f *HubForm) publish(v values) error {
	for _, p := range v {
		if p.name != "hub.url" && p.name != "hub.topic" || p.value == "" || slices.Contains(f.Topics, p.value) {
			continue
		}
		if err := checkPeerURL(p.value); err != nil {
			return fmt.Errorf("%s cannot be used: %w", p.name, err)
		}
		if len(f.Topics) == maxPublished {
			return fmt.Errorf("hub.url: more than %d topics in one request", maxPublished)
		}
		f.Topics = append(f.Topics, p.value)
	}
	if len(f.Topics) == 0 {
		return errors.New("hub.url is missing (or hub.topic)")
	}
	return nil
}
