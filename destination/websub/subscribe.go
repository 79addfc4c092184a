package websub

import "strconv"

// Mode is the value of hub.mode.
type Mode string

// The modes: a subscriber's requests, a hub's answers, a publisher's ping.
const (
	ModeSubscribe   Mode = "subscribe"
	ModeUnsubscribe Mode = "unsubscribe"
	ModeDenied      Mode = "denied"
	ModePublish     Mode = "publish"
)

// SubscribeForm is a subscriber's request to a hub (websub.md 2.1).
type SubscribeForm struct {
	Mode     Mode // ModeSubscribe or ModeUnsubscribe
	Callback string
	Topic    string // as discovered or subscribed, byte for byte
	Secret   string // at most 199 bytes; "" for none
	Lease    int64  // in seconds; 0 or less for the hub's choice
	Verify   string // "sync" for a hub of PubSubHubbub 0.3 (T-05), else ""
}

// Encode returns the body of the request, of type FormType. Empty values are left out, never sent
// empty (S-20), and so are secret and lease when unsubscribing, where they mean nothing.
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
