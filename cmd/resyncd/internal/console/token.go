package console

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"net/http"
)

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
