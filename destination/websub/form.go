// Package websub knows the words of WebSub: the links by which topics and hubs name each other, the forms and queries
// that subscribers, hubs and publishers exchange, and the signatures of content. It refuses to know how they travel and
// what comes of them.
//
// Rules are cited as S-nn, H-nn, P-nn, T-nn and Q-nn from websub.md.
package websub

import (
	"encoding/hex"
	"errors"
	"fmt"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode"
)

// Mode is the value of hub.mode.
type Mode string

const (
	ModeSubscribe   Mode = "subscribe"
	ModeUnsubscribe Mode = "unsubscribe"
	ModeDenied      Mode = "denied"
	ModePublish     Mode = "publish"
)

const (
	maxSecret    = 199 // websub.md 2.1
	maxPublished = 100 // topics in one ping (P-03)
)

// HubForm is a request of a subscriber or publisher to a hub (websub.md 2.1).
type HubForm struct {
	Mode     Mode
	Callback string
	Topic    string // byte for byte
	Secret   string // at most 199 bytes; "" for none
	// Verify is "sync" or "async" of PubSubHubbub 0.3 (T-05); "" is WebSub (H-21).
	Verify      string
	VerifyToken string
	// Lease is in seconds, 0 for the hub's choice; it may be absurdly long.
	Lease  int64
	Topics []string // of ModePublish (H-16)
}

// Encode returns the body of a subscriber's request. Empty values are never sent (S-20), nor secret and lease when
// unsubscribing.
func (f HubForm) Encode() []byte {
	lease := ""
	if f.Lease > 0 {
		lease = strconv.FormatInt(f.Lease, 10)
	}
	if f.Mode == ModeUnsubscribe {
		f.Secret, lease = "", ""
	}
	return []byte(values{
		{"hub.callback", f.Callback}, {"hub.mode", string(f.Mode)}, {"hub.topic", f.Topic},
		{"hub.lease_seconds", lease}, {"hub.secret", f.Secret}, {"hub.verify", f.Verify},
	}.encode())
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
	if f.Lease = parseLease(lease); f.Lease == 0 {
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

const (
	leaseAssumed = 24 * 3600      // S-53
	leaseLongest = 30 * 24 * 3600 // S-54
	leaseShort   = 60             // odd below it
)

// parseLease reads a positive number of seconds, 0 for anything else. A number beyond an int64 becomes the greatest.
func parseLease(s string) int64 {
	if s = strings.Trim(s, blanks); strings.Trim(s, "0123456789") != "" {
		return 0
	}
	n, _ := strconv.ParseUint(s, 10, 63) // of the two errors, nothing is 0 and too much the greatest
	return int64(n)
}

// GrantedLease returns how many seconds a lease lasts, at least 1 and at most 30 days, and what was odd about the grant
// (S-53, S-54, F23). Without a usable number it is the lesser of the requested time and a day.
func GrantedLease(v Verification, asked int64) (seconds int64, odd string) {
	if v.Lease <= 0 {
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

// FormType is the media type of every request to a hub.
const FormType = "application/x-www-form-urlencoded"

const (
	maxEncoded = 1 << 20 // of a query or form (P8)
	maxPairs   = 4096
	maxText    = 200 // characters of untrusted text
)

var errTooLong = errors.New("more parameters than anyone needs")

// values are decoded parameters in order.
type values []param

func (v values) get(name string) string {
	s, _ := v.lookup(name)
	return s
}

func (v values) lookup(name string) (string, bool) {
	for _, p := range v {
		if p.name == name {
			return p.value, true
		}
	}
	return "", false
}

// decode is lenient (S-39): only & separates, so that an unescaped ; belongs to its value; an invalid escape stays as
// written.
func decode(raw string) (values, error) {
	if len(raw) > maxEncoded {
		return nil, errTooLong
	}
	var all values
	for raw != "" {
		var pair string
		pair, raw, _ = strings.Cut(raw, "&")
		if pair == "" {
			continue
		}
		if len(all) == maxPairs {
			return nil, errTooLong
		}
		name, value, _ := strings.Cut(pair, "=")
		all = append(all, param{name: unescape(name), value: unescape(value)})
	}
	return all, nil
}

var escape = regexp.MustCompile("%[0-9A-Fa-f]{2}")

func unescape(s string) string {
	return escape.ReplaceAllStringFunc(strings.ReplaceAll(s, "+", " "), func(found string) string {
		b, err := hex.DecodeString(found[1:])
		if err != nil {
			return found
		}
		return string(b)
	})
}

// encode leaves empty values out (S-20). A blank becomes %20, because not every decoder understands +.
func (v values) encode() string {
	var pairs []string
	for _, p := range v {
		if p.value != "" {
			pairs = append(pairs, p.name+"="+strings.ReplaceAll(url.QueryEscape(p.value), "+", "%20"))
		}
	}
	return strings.Join(pairs, "&")
}

// printable makes untrusted text fit for a log line.
func printable(s string) string {
	s = strings.Map(func(r rune) rune {
		switch {
		case unicode.IsSpace(r):
			return ' '
		case unicode.IsPrint(r):
			return r
		}
		return unicode.ReplacementChar
	}, shorten(s, 4*maxText))
	return shorten(strings.TrimSpace(s), maxText-1)
}

func shorten(s string, n int) string {
	count := 0
	for i := range s {
		if count == n {
			return s[:i] + "…"
		}
		count++
	}
	return s
}

// Verification is a hub's GET to a callback: a verification of intent, or a denial (websub.md 2.2, 2.3).
type Verification struct {
	Mode        Mode
	Topic       string
	Challenge   string
	Reason      string // of a denial; one printable line
	VerifyToken string // of PubSubHubbub 0.3
	Lease       int64  // a positive integer, perhaps capped; 0 unless known
	LeaseText   string // what was given instead of one, printable; "" for nothing
}

// ParseVerification parses the raw query of a hub's GET (S-39): the first of repeated parameters counts, and a hub that
// joined its parameters to the callback's own with a second ? is understood. The caller compares topic and
// challenge.
func ParseVerification(rawQuery string) (Verification, error) {
	v, err := decode(splitQuery(rawQuery))
	if err != nil {
		return Verification{}, fmt.Errorf("read the query of a callback: %w", err)
	}
	mode := Mode(v.get("hub.mode"))
	switch mode {
	case ModeSubscribe, ModeUnsubscribe, ModeDenied:
	case "":
		return Verification{}, errors.New("read the query of a callback: no hub.mode")
	default:
		return Verification{}, fmt.Errorf("read the query of a callback: hub.mode %q is no hub's",
			shorten(string(mode), 20))
	}
	out := Verification{
		Mode:        mode,
		Topic:       v.get("hub.topic"),
		Challenge:   v.get("hub.challenge"),
		Reason:      printable(v.get("hub.reason")),
		VerifyToken: v.get("hub.verify_token"),
	}
	lease := v.get("hub.lease_seconds")
	if out.Lease = parseLease(lease); out.Lease == 0 {
		out.LeaseText = printable(lease)
	}
	return out, nil
}

// Some hubs append "?hub.mode=…" to a callback that has a query. A ? inside a hub parameter belongs to it.
func splitQuery(raw string) string {
	at := 0
	for pair := range strings.SplitSeq(raw, "&") {
		if strings.HasPrefix(pair, "hub.") {
			break
		}
		if i := strings.Index(pair, "?hub."); i >= 0 {
			return raw[:at+i] + "&" + raw[at+i+1:]
		}
		at += len(pair) + len("&")
	}
	return raw
}

const maxChallenge = 1024

var harmless = regexp.MustCompile(`^[a-zA-Z0-9._~+/=:-]+$`)

// ValidChallenge reports whether a challenge may be sent back: bounded, and of characters that mean nothing to a
// browser (S-34).
func ValidChallenge(challenge string) bool {
	return len(challenge) <= maxChallenge && harmless.MatchString(challenge)
}

// VerificationURL returns the URL of a hub's GET for v: the callback byte for byte, and the parameters after it (H-06).
// A callback that a hub must refuse (H-03) is an error.
func VerificationURL(callback string, v Verification) (string, error) {
	if err := checkPeerURL(callback); err != nil {
		return "", fmt.Errorf("join parameters to a callback: %w", err)
	}
	query := values{{"hub.mode", string(v.Mode)}, {"hub.topic", v.Topic}}
	if v.Mode == ModeDenied {
		query = append(query, param{"hub.reason", v.Reason})
	} else {
		query = append(query, param{"hub.challenge", v.Challenge})
	}
	if v.Mode == ModeSubscribe && v.Lease > 0 {
		query = append(query, param{"hub.lease_seconds", strconv.FormatInt(v.Lease, 10)})
	}
	query = append(query, param{"hub.verify_token", v.VerifyToken})
	join := "?"
	if _, own, ok := strings.Cut(callback, "?"); ok {
		join = "&"
		if own == "" || strings.HasSuffix(own, "&") {
			join = ""
		}
	}
	return callback + join + query.encode(), nil
}

// The error of checkPeerURL never repeats the URL: a callback is a secret between subscriber and hub.
func checkPeerURL(raw string) error {
	if len(raw) > maxURI {
		return fmt.Errorf("it is longer than %d bytes", maxURI)
	}
	u, err := url.Parse(raw)
	switch {
	case err != nil:
		return errors.New("it is no URL")
	case u.Scheme != "http" && u.Scheme != "https", u.Opaque != "", u.Hostname() == "":
		return errors.New("it is no absolute http or https URL")
	case strings.Contains(raw, "#"):
		return errors.New("it has a fragment")
	case u.User != nil:
		return errors.New("it holds a user name or password")
	}
	return nil
}
