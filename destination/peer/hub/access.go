package hub

import (
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"errors"
	"net/http"
	"net/netip"
	"net/url"
	"strings"

	"resyncd/destination/fetch"
)

// usable holds a URL to what hubs speak of: absolute, http or https, without fragment and credentials.
func usable(u *url.URL) bool {
	return (u.Scheme == "http" || u.Scheme == "https") && u.Opaque == "" && u.Hostname() != "" && u.User == nil &&
		u.Fragment == ""
}

// served reports whether a topic may be subscribed to and published here.
func (o *Options) served(topic string) bool {
	if len(o.TopicPrefixes) == 0 {
		return true
	}
	if strings.Contains(topic, "/../") || strings.HasSuffix(topic, "/..") {
		return false // it may be elsewhere than it says
	}
	for _, prefix := range o.TopicPrefixes {
		rest, ok := strings.CutPrefix(topic, prefix)
		if !ok {
			continue
		}
		u, err := url.Parse(prefix)
		if err != nil {
			continue
		}
		// https://example.org must not let https://example.org.evil.example or example.org@evil.example in.
		if u.Path != "" || u.RawQuery != "" || rest == "" || rest[0] == '/' || rest[0] == '?' {
			return true
		}
	}
	return false
}

// Why a publisher may not push content.
var (
	errNoToken   = errors.New("this hub takes content from publishers with its token only: send Authorization: Bearer")
	errNotLocal  = errors.New("this hub takes content from publishers on its own machine only; it has no publisher token")
	errForwarded = errors.New("this hub has no publisher token, so it takes no content that came through a proxy or a browser")
)

// mayPush decides whether a request may bring content: nobody has looked at its topic, so the publisher must be known
// (H-17).
func (o *Options) mayPush(r *http.Request) error {
	if o.PublisherToken != "" {
		scheme, given, _ := strings.Cut(r.Header.Get("Authorization"), " ")
		want, got := sha256.Sum256([]byte(o.PublisherToken)), sha256.Sum256([]byte(strings.TrimSpace(given)))
		if !strings.EqualFold(scheme, "Bearer") || subtle.ConstantTimeCompare(want[:], got[:]) != 1 {
			return errNoToken
		}
		return nil
	}
	from, err := netip.ParseAddrPort(r.RemoteAddr)
	if err != nil || !from.Addr().Unmap().IsLoopback() {
		return errNotLocal
	}
	// Behind a proxy on this machine everybody comes from loopback, and so does any page in a local browser.
	for _, name := range []string{"Forwarded", "X-Forwarded-For", "X-Real-Ip", "Via", "Origin"} {
		if r.Header.Get(name) != "" {
			return errForwarded
		}
	}
	return nil
}

// label names a callback in logs: its path and query are the subscriber's secret (P10), so they are a hash.
func label(callback string) string {
	sum := sha256.Sum256([]byte(callback))
	origin := "?"
	if u, err := url.Parse(callback); err == nil {
		origin = u.Scheme + "://" + u.Host
	}
	return origin + "/…" + hex.EncodeToString(sum[:4])
}

// hostOf is whom the verifications of a callback are counted for, whatever the port.
func hostOf(callback string) string {
	u, err := url.Parse(callback)
	if err != nil {
		return ""
	}
	return strings.ToLower(u.Hostname())
}

// because says why something on the network failed, without the URL that an error of fetch repeats.
func because(err error) string {
	if e, ok := errors.AsType[*fetch.Error](err); ok {
		return e.Kind.String() + ": " + e.Err.Error()
	}
	return err.Error()
}
