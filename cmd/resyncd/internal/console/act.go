package console

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"errors"
	"mime"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"
)

const mostForm = 64 << 10

var actions = []ActionKind{Pull, Renew, Approve, Reject, Restore, Pause, Resume}

// do carries out what a form of our own page asks for, then sends the browser to the page that shows it.
func (c *console) do(w http.ResponseWriter, r *http.Request, name string) {
	if !sameOrigin(r) {
		say(w, http.StatusForbidden, "this was asked for by another site; nothing was done")
		return
	}
	if kind, _, err := mime.ParseMediaType(r.Header.Get("Content-Type")); err != nil ||
		kind != "application/x-www-form-urlencoded" {
		say(w, http.StatusUnsupportedMediaType, "actions come as a form (application/x-www-form-urlencoded)")
		return
	}
	r.Body = http.MaxBytesReader(w, r.Body, mostForm)
	if err := r.ParseForm(); err != nil {
		say(w, http.StatusBadRequest, "that form cannot be read; nothing was done")
		return
	}
	form := r.PostForm
	if !c.sealed(r, form.Get("csrf")) {
		c.show(w, r, http.StatusForbidden, "message", page{Title: "Not done", Source: name, Body: Finding{
			Level: Warn, State: "Nothing was done",
			Why: "That form was not made by this process for this browser: resyncd was restarted since, or cookies " +
				"are refused. Open the page again and repeat.",
		}})
		return
	}
	a := Action{Kind: ActionKind(form.Get("action")), Source: name, Topic: form.Get("topic"), URI: form.Get("uri")}
	if !slices.Contains(actions, a.Kind) || a.Kind == Restore && a.URI == "" {
		say(w, http.StatusBadRequest, "there is no such action; nothing was done")
		return
	}
	level, text := c.carryOut(r, a)
	w.Header().Set("Location", after(a, c.flashes.pin(time.Now(), level, text)))
	w.WriteHeader(http.StatusSeeOther)
}

func (c *console) carryOut(r *http.Request, a Action) (Level, string) {
	text, err := c.Data.Do(r.Context(), a)
	from, _, _ := net.SplitHostPort(r.RemoteAddr)
	log := c.Log.With("action", string(a.Kind), "source", a.Source, "client", from)
	if err == nil {
		log.Info("an operator's action was carried out")
		return Good, text
	}
	log.Warn("an operator's action failed", "err", err)
	if errors.Is(err, ErrUnknown) {
		return Warn, "There is nothing of that name any more; nothing was done."
	}
	return Bad, "That failed: " + err.Error()
}

// after is the address of the page that shows what was done.
func after(a Action, said string) string {
	q := url.Values{"said": {said}}
	if a.Kind == Restore {
		q.Set("uri", a.URI)
		return sourcePath(a.Source, "resource") + "?" + q.Encode()
	}
	return sourcePath(a.Source) + "?" + q.Encode()
}

const (
	mostFlashes = 64
	flashTime   = 10 * time.Minute
)

// flash is what an action had to say, for the page that follows it.
type flash struct {
	id    string
	until time.Time
	Level Level
	Text  string
}

// flashes are kept here, so that no address carries a text that a stranger wrote.
type flashes struct {
	mu   sync.Mutex
	kept []flash
}

func (b *flashes) pin(now time.Time, level Level, text string) string {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.kept = slices.DeleteFunc(b.kept, func(f flash) bool { return now.After(f.until) })
	if len(b.kept) >= mostFlashes {
		b.kept = slices.Delete(b.kept, 0, len(b.kept)-mostFlashes+1)
	}
	id := rand.Text()
	b.kept = append(b.kept, flash{id: id, until: now.Add(flashTime), Level: level, Text: plain(text)})
	return id
}

func (b *flashes) find(now time.Time, id string) *flash {
	b.mu.Lock()
	defer b.mu.Unlock()
	i := slices.IndexFunc(b.kept, func(f flash) bool { return f.id == id && !now.After(f.until) })
	if i < 0 {
		return nil
	}
	return new(b.kept[i])
}

// pagePolicy lets a page have what comes from here, and no frame around it.
const pagePolicy = "default-src 'none'; style-src 'self'; script-src 'self'; img-src 'self'; connect-src 'self'; " +
	"form-action 'self'; frame-ancestors 'none'; base-uri 'none'"

func guard(h http.Header) {
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Cache-Control", "no-store")
	h.Set("Content-Security-Policy", "default-src 'none'; frame-ancestors 'none'")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
	h.Set("Cross-Origin-Opener-Policy", "same-origin")
}

// known lets every address pass: it cannot be pointed elsewhere as a name can.
func (c *console) known(hostport string) bool {
	host := strings.TrimSuffix(strings.ToLower((&url.URL{Host: hostport}).Hostname()), ".")
	if host == "localhost" || strings.HasSuffix(host, ".localhost") {
		return true
	}
	if _, err := netip.ParseAddr(host); err == nil {
		return true
	}
	return slices.ContainsFunc(c.Hosts, func(name string) bool {
		return name != "" && strings.EqualFold(strings.TrimSuffix(name, "."), host)
	})
}

// admit takes the same time whatever is wrong.
func (a *Auth) admit(r *http.Request) bool {
	if a == nil {
		return true
	}
	same := func(given, wanted string) bool {
		g, w := sha256.Sum256([]byte(given)), sha256.Sum256([]byte(wanted))
		return subtle.ConstantTimeCompare(g[:], w[:]) == 1 && wanted != ""
	}
	ok := false
	if scheme, token, found := strings.Cut(r.Header.Get("Authorization"), " "); found &&
		strings.EqualFold(scheme, "bearer") {
		ok = same(strings.TrimSpace(token), a.Token)
	}
	if user, password, found := r.BasicAuth(); found {
		named := same(user, a.User)
		secret := same(password, a.Password)
		token := same(password, a.Token)
		ok = ok || named && secret || token
	}
	return ok
}

func (a *Auth) refuse(w http.ResponseWriter) {
	if a.Token != "" {
		w.Header().Add("WWW-Authenticate", `Bearer realm="resyncd"`)
	}
	w.Header().Add("WWW-Authenticate", `Basic realm="resyncd", charset="UTF-8"`)
	say(w, http.StatusUnauthorized, "who are you? see console.* in the configuration")
}

// sameOrigin goes by what browsers say in at least one of these headers. A program that says nothing is no browser.
func sameOrigin(r *http.Request) bool {
	if site := r.Header.Get("Sec-Fetch-Site"); site != "" && site != "same-origin" {
		return false
	}
	for _, name := range []string{"Origin", "Referer"} {
		if from := r.Header.Get(name); from != "" {
			u, err := url.Parse(from)
			// A proxy may speak TLS for us.
			return err == nil && (u.Scheme == "http" || u.Scheme == "https") && strings.EqualFold(u.Host, r.Host)
		}
	}
	return true
}

// cookieName binds the forms of a page to its browser; it is a random number.
const cookieName = "resyncd-console"

// seal makes the token of forms. Its key is the process's own: no form outlives a restart.
func (c *console) seal(cookie string) string {
	mac := hmac.New(sha256.New, c.key[:])
	mac.Write([]byte("form\x00" + cookie))
	return base64.RawURLEncoding.EncodeToString(mac.Sum(nil))
}

// token gives the browser its cookie if it has none.
func (c *console) token(w http.ResponseWriter, r *http.Request) string {
	if had, err := r.Cookie(cookieName); err == nil && len(had.Value) == 26 {
		return c.seal(had.Value)
	}
	value := rand.Text()
	http.SetCookie(w, &http.Cookie{
		Name: cookieName, Value: value, Path: "/", HttpOnly: true, SameSite: http.SameSiteStrictMode,
		Secure: r.TLS != nil,
	})
	return c.seal(value)
}

func (c *console) sealed(r *http.Request, token string) bool {
	cookie, err := r.Cookie(cookieName)
	if err != nil {
		return false
	}
	return subtle.ConstantTimeCompare([]byte(token), []byte(c.seal(cookie.Value))) == 1
}
