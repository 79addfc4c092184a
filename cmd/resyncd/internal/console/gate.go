package console

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strings"
)

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
