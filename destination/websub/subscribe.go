package websub

import "strconv"

// Mode is the value of hub.mode.
type Mode string

const (
	ModeSubscribe   Mode = "subscribe"
	ModeUnsubscribe Mode = "unsubscribe"
	ModeDenied      Mode = "denied"
	ModePublish     Mode = "publish"
)

// SubscribeForm is a subscriber's request to a hub (websub.md 2.1).
type SubscribeForm struct {
	Mode     Mode
	Callback string
	Topic    string // byte for byte
	Secret   string // at most 199 bytes; "" for none
	Lease    int64  // seconds; 0 for the hub's choice
	Verify   string // "sync" for a hub of PubSubHubbub 0.3 (T-05), else ""
}

// Encode returns the body of the request. Empty values are never sent (S-20), nor secret and lease when unsubscribing.
func (f SubscribeForm) Encode() []byte {
	var e formEncoder
	e.add("hub.callback", f.Callback)
	e.add("hub.mode", string(f.Mode))
	e.add("hub.topic", f.Topic)
	if f.Mode != ModeUnsubscribe {
		if f.Lease > 0 {
			e.add("hub.lease_seconds", strconv.FormatInt(f.Lease, 10))
		}
		e.add("hub.secret", f.Secret)
	}
	e.add("hub.verify", f.Verify)
	return []byte(e.b.String())
}
