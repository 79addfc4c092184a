package console

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"net/http"
)

// cookieName names the cookie that binds the forms of a page to the browser that asked for the page. It holds nothing
// but a random number.
const cookieName = "resyncd-console"

// seal makes the token of forms that go to the browser with that cookie. Its key is the process's own, so a form does
// not outlive a restart.
func (c *console) seal(cookie string) string {
	mac := hmac.New(sha256.New, c.key[:])
	mac.Write([]byte("form\x00" + cookie))
	return base64.RawURLEncoding.EncodeToString(mac.Sum(nil))
}

// token returns the token for the forms of a page, and gives the browser its cookie if it has none.
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

// sealed reports whether a form's token belongs to the cookie that came with it.
func (c *console) sealed(r *http.Request, token string) bool {
	cookie, err := r.Cookie(cookieName)
	if err != nil {
		return false
	}
	return subtle.ConstantTimeCompare([]byte(token), []byte(c.seal(cookie.Value))) == 1
}
