package websub

import (
	"errors"
	"fmt"
	"net/url"
	"regexp"
	"strconv"
	"strings"
)

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
