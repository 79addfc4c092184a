package config

import (
	"errors"
	"net"
	"net/url"
	"strconv"
	"strings"
	"unicode"
)

// maxText bounds every text, in bytes.
const maxText = 2048

const notYet = "is not in this version"

// checkForm tells what is wrong with text, as the rest of a sentence. A form that ends in "?" takes the empty text.
func checkForm(form, text string) error {
	if form, optional := strings.CutSuffix(form, "?"); optional {
		if text == "" {
			return nil
		}
		return checkForm(form, text)
	}
	if len(text) > maxText {
		return errors.New("is too long: at most " + strconv.Itoa(maxText) + " bytes")
	}
	switch form {
	case "path", "secretfile":
		return localPath(text)
	case "store":
		return storeName(text)
	case "later":
		if text != "off" {
			return errors.New(notYet + "; write off")
		}
	case "mirror":
		return mirrorRoot(text)
	case "listen":
		return listenAddress(text)
	case "url":
		return webURL(text)
	case "base":
		return callbackBase(text)
	case "prefix":
		return scopePrefix(text)
	case "name":
		return sourceName(text)
	case "agent", "secret":
		if strings.ContainsFunc(text, notHeader) {
			return errors.New("must be one line of printable ASCII")
		}
	case "host":
		return hostName(text)
	case "user": // a colon would end it (RFC 7617 section 2)
		if strings.Contains(text, ":") || strings.ContainsFunc(text, unicode.IsControl) {
			return errors.New("must not hold a colon or a control character")
		}
	case "password":
		if strings.ContainsFunc(text, unicode.IsControl) {
			return errors.New("must be one line without control characters")
		}
	}
	return nil
}

func localPath(text string) error {
	switch {
	case text == "" || strings.ContainsFunc(text, unicode.IsControl):
		return errors.New("is not a path")
	case strings.HasPrefix(text, "~"):
		return errors.New("begins with ~, which is not expanded here: write the path out")
	}
	return nil
}

func storeName(text string) error {
	switch {
	case text == "sqlite":
		return nil
	case strings.HasPrefix(text, "postgres://"), strings.HasPrefix(text, "postgresql://"):
		return errors.New(notYet + "; write sqlite")
	}
	return errors.New("is not allowed; write sqlite")
}

func mirrorRoot(text string) error {
	switch {
	case strings.HasPrefix(text, "s3://"):
		return errors.New(notYet + "; write a local folder")
	case strings.Contains(text, "://"):
		return errors.New("is not allowed; write a local folder")
	}
	return localPath(text)
}

// listenAddress wants host:port; no host is all interfaces, port 0 any.
func listenAddress(text string) error {
	host, port, err := net.SplitHostPort(text)
	if err == nil {
		_, err = strconv.ParseUint(port, 10, 16)
	}
	if err != nil || strings.ContainsFunc(host, notVisible) {
		return errors.New("is not an address to listen on: write host:port, such as 127.0.0.1:8090")
	}
	return nil
}

// webURL wants an absolute http or https URL without a password, which has a key of its own.
func webURL(text string) error {
	u, err := absoluteURL(text)
	if err == nil && u.Port() != "" {
		if n, perr := strconv.ParseUint(u.Port(), 10, 16); perr != nil || n == 0 {
			return errNoPort
		}
	}
	return err
}

var errNoPort = errors.New("names a port that does not exist")

func absoluteURL(text string) (*url.URL, error) {
	u, err := url.Parse(text)
	switch {
	case err != nil || strings.ContainsFunc(text, notVisible) || (u.Scheme != "http" && u.Scheme != "https") ||
		u.Hostname() == "":
		return nil, errors.New("is not a URL: write http:// or https:// with a host, such as https://example.org/")
	case u.User != nil:
		return nil, errors.New("carries a user or password: write these under auth")
	case strings.Contains(text, "#"):
		return nil, errors.New("carries a fragment: leave out # and what follows")
	}
	return u, nil
}

// scopePrefix is a URL whose host has an end: "https://example.org" would also be a prefix of
// https://example.org.evil/.
func scopePrefix(text string) error {
	if err := webURL(text); err != nil {
		return err
	}
	if u, err := url.Parse(text); err != nil || !strings.HasPrefix(u.EscapedPath(), "/") {
		return errors.New("does not end the host: write a / after it")
	}
	return nil
}

// ValidName reports whether a Source may be called so.
func ValidName(name string) bool { return sourceName(name) == nil }

// sourceName keeps a name safe as a folder on every system.
func sourceName(text string) error {
	ok := len(text) >= 1 && len(text) <= 64 && isAlnum(rune(text[0])) && text[len(text)-1] != '.' &&
		!strings.ContainsFunc(text, func(r rune) bool { return !isAlnum(r) && !strings.ContainsRune("._-", r) })
	if !ok {
		return errors.New("is not a name: write 1 to 64 letters, digits and . _ -, the first a letter or digit, the " +
			"last no dot")
	}
	stem, _, _ := strings.Cut(strings.ToUpper(text), ".")
	switch stem {
	case "CON", "PRN", "AUX", "NUL":
		return errors.New("is reserved on Windows: choose another name")
	}
	if len(stem) == 4 && (strings.HasPrefix(stem, "COM") || strings.HasPrefix(stem, "LPT")) && stem[3] >= '0' &&
		stem[3] <= '9' {
		return errors.New("is reserved on Windows: choose another name")
	}
	return nil
}

func hostName(text string) error {
	ok := text != "" && !strings.ContainsFunc(text, func(r rune) bool {
		return !isAlnum(r) &&
			!strings.ContainsRune(".-_", r)
	})
	if !ok {
		return errors.New("is not a name of this console: write it without http:// and port, such as " +
			"mirror.example.org")
	}
	return nil
}

// headerName wants a header that fetch does not write itself.
func headerName(text string) error {
	token := text != "" && !strings.ContainsFunc(text, func(r rune) bool {
		return !isAlnum(r) && !strings.ContainsRune("!#$%&'*+-.^_`|~", r)
	})
	if !token || len(text) > 128 {
		return errors.New("is not a header name")
	}
	switch strings.ToLower(text) {
	case "host", "connection", "content-length", "transfer-encoding", "te", "trailer", "upgrade", "range", "if-range",
		"if-match", "if-none-match", "if-modified-since", "if-unmodified-since", "accept-encoding", "user-agent":
		return errors.New("is written by resyncd itself: choose another header")
	}
	return nil
}

func isAlnum(r rune) bool {
	return r >= '0' && r <= '9' || r >= 'A' && r <= 'Z' || r >= 'a' && r <= 'z'
}

func notHeader(r rune) bool  { return r < ' ' || r > '~' }
func notVisible(r rune) bool { return r <= ' ' || !unicode.IsPrint(r) }
