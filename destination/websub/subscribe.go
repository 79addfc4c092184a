package websub

import "strconv"

// Mode is the value of hub.mode.
type Mode string

// The modes: what a subscriber asks for, what a hub says, what a publisher pings with.
const (
	ModeSubscribe   Mode = "subscribe"
	ModeUnsubscribe Mode = "unsubscribe"
	ModeDenied      Mode = "denied"
	ModePublish     Mode = "publish"
)

// SubscribeForm is a subscriber's request to a hub (spec/websub.md 2.1).
type SubscribeForm struct {
	Mode     Mode // ModeSubscribe or ModeUnsubscribe
	Callback string
	Topic    string // as it was discovered, or subscribed, byte for byte
	Secret   string // at most 199 bytes; "" for none
	Lease    int64  // seconds asked for; 0 or less for the hub's choice
	Verify   string // "sync" for a hub of PubSubHubbub 0.3 (T-05), else ""
}

// Encode returns the body of the request, of type FormType. What is empty is left out, never sent empty (S-20), and so are
// secret and lease when unsubscribing: there they mean nothing.
func (f SubscribeForm) Encode() []byte {
	var e encoder
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

// PublishForm returns the body of a light ping, of type FormType: each topic under both names in use (P-03).
func PublishForm(topics ...string) []byte {
	var e encoder
	e.add("hub.mode", string(ModePublish))
	for _, t := range topics {
		e.add("hub.url", t)
		e.add("hub.topic", t)
	}
	return []byte(e.b.String())
}
