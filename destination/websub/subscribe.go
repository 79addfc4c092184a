package websub

import (
	"fmt"
	"math"
	"strconv"
	"strings"
)

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

const (
	leaseAssumed = 24 * 3600      // S-53
	leaseLongest = 30 * 24 * 3600 // S-54
	leaseShort   = 60             // odd below it
)

// A number beyond an int64 becomes the greatest.
func parseLease(s string) (seconds int64, ok bool) {
	s = strings.Trim(s, blanks)
	for i := range len(s) {
		if s[i] < '0' || s[i] > '9' {
			return 0, false
		}
		digit := int64(s[i] - '0')
		if seconds > (math.MaxInt64-digit)/10 {
			seconds = math.MaxInt64
			continue
		}
		seconds = seconds*10 + digit
	}
	return seconds, seconds > 0
}

// GrantedLease returns how many seconds a lease lasts, at least 1 and at most 30 days, and what was odd about the grant
// (S-53, S-54, F23). Without a usable number it is the lesser of the requested time and a day.
func GrantedLease(v Verification, asked int64) (seconds int64, odd string) {
	if !v.LeaseKnown || v.Lease <= 0 {
		seconds = leaseAssumed
		if asked > 0 {
			seconds = min(asked, leaseAssumed)
		}
		if v.LeaseText == "" {
			return seconds, fmt.Sprintf("the hub granted no lease, taken as %d s", seconds)
		}
		return seconds, fmt.Sprintf("the hub granted a lease of %q, taken as %d s", v.LeaseText, seconds)
	}
	switch {
	case v.Lease > leaseLongest:
		return leaseLongest, fmt.Sprintf("the hub granted a lease of %d s, taken as %d s", v.Lease, int64(leaseLongest))
	case v.Lease < leaseShort:
		return v.Lease, fmt.Sprintf("the hub granted a lease of only %d s", v.Lease)
	}
	return v.Lease, ""
}
