package hub

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"net/http"
	"net/url"
	"strings"

	"resyncd/destination/fetch"
)

// usable holds a URL to what hubs take: absolute, http or https, without fragment and credentials.
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
		return false // it may be elsewhere
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

// label names a callback in logs. Path and query are the secret of the subscriber (P10), so they are a hash.
func label(callback string) string {
	sum := sha256.Sum256([]byte(callback))
	origin := "?"
	if u, err := url.Parse(callback); err == nil {
		origin = u.Scheme + "://" + u.Host
	}
	return origin + "/…" + hex.EncodeToString(sum[:4])
}

// isEmpty reports whether a topic has no content (S-10, R-04).
func isEmpty(err error) bool {
	e, ok := errors.AsType[*fetch.Error](err)
	return ok && e.Status == http.StatusNoContent
}

// reason is why something on the network failed, without its URL.
func reason(err error) string {
	if e, ok := errors.AsType[*fetch.Error](err); ok {
		return e.Kind.String() + ": " + e.Err.Error()
	}
	return err.Error()
}
