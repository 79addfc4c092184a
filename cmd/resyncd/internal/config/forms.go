package config

import (
	"errors"
	"net"
	"net/netip"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode"
)

// maxText bounds a text, in bytes.
const maxText = 2048

const notYet = "is not in this version"

// bounded tells what is wrong with text, as the rest of a sentence.
func bounded(check func(string) error, text string) error {
	if len(text) > maxText {
		return errors.New("is too long: at most " + strconv.Itoa(maxText) + " bytes")
	}
	return check(text)
}

// optional takes the empty text too.
func optional(check func(string) error) func(string) error {
	return func(text string) error {
		if text == "" {
			return nil
		}
		return check(text)
	}
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

func mirrorRoot(text string) error {
	switch {
	case strings.HasPrefix(text, "s3://"):
		return errors.New(notYet + "; write a local folder")
	case strings.Contains(text, "://"):
		return errors.New("is not allowed; write a local folder")
	}
	return localPath(text)
}

// only refuses what this version does not bring; later are the beginnings of what another may.
func only(want string, later ...string) func(string) error {
	return func(text string) error {
		verdict := "is not allowed"
		switch {
		case text == want:
			return nil
		case slices.ContainsFunc(later, func(begin string) bool { return strings.HasPrefix(text, begin) }):
			verdict = notYet
		}
		return errors.New(verdict + "; write " + want)
	}
}

// matching is a check that wants a pattern.
func matching(pattern, what string) func(string) error {
	re := regexp.MustCompile(pattern)
	return func(text string) error {
		if !re.MatchString(text) {
			return errors.New(what)
		}
		return nil
	}
}

// What texts must look like. A colon would end the name of a user (RFC 7617 section 2).
var (
	userName   = matching(`^[^:\p{Cc}]*$`, "must not hold a colon or a control character")
	password   = matching(`^\P{Cc}*$`, "must be one line without control characters")
	headerText = matching(`^[ -~]*$`, "must be one line of printable ASCII")
	hostName   = matching(`^[0-9A-Za-z._-]+$`,
		"is not a name of this console: write it without http:// and port, such as mirror.example.org")
	recordsFormat = matching(`^(resource-finder)?$`, "is not allowed; write resource-finder, or leave it empty")
	folderName    = matching(`^[0-9A-Za-z]([0-9A-Za-z._-]{0,62}[0-9A-Za-z_-])?$`,
		"is not a name: write 1 to 64 letters, digits and . _ -, the first a letter or digit, the last no dot")
	headerToken = matching("^[0-9A-Za-z!#$%&'*+.^_`|~-]{1,128}$", "is not a header name")

	deviceName  = regexp.MustCompile(`^(?i:CON|PRN|AUX|NUL|COM[0-9]|LPT[0-9])(\.|$)`)
	writtenHere = regexp.MustCompile(`^(?i:host|connection|content-length|transfer-encoding|te|trailer|upgrade|` +
		`range|if-(range|match|none-match|modified-since|unmodified-since)|accept-encoding|user-agent)$`)
)

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

// consoleListen takes off for empty, because an empty variable counts as not set.
func consoleListen(text string) (string, error) {
	if text == "off" || text == "" {
		return "", nil
	}
	return text, bounded(listenAddress, text)
}

var errNoPort = errors.New("names a port that does not exist")

// webURL wants an absolute http or https URL without a password, which has a key of its own.
func webURL(text string) error {
	u, err := absoluteURL(text)
	if err != nil {
		return err
	}
	if n, err := strconv.Atoi(u.Port()); err == nil && n == 0 {
		return errNoPort
	}
	return nil
}

// absoluteURL takes port 0, the one that is listened on.
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
	if _, err := strconv.ParseUint(u.Port(), 10, 16); u.Port() != "" && err != nil {
		return nil, errNoPort
	}
	return u, nil
}

// callbackBase wants a URL that no proxy rewrites: hubs compare and call it byte for byte.
func callbackBase(text string) error {
	u, err := absoluteURL(text)
	if err != nil {
		return err
	}
	if strings.Contains(text, "?") {
		return errors.New("must not carry a query: the token is appended to its path")
	}
	path := strings.TrimRight(strings.TrimPrefix(u.EscapedPath(), "/"), "/")
	for segment := range strings.SplitSeq(path, "/") {
		if segment == "." || segment == ".." || segment == "" && path != "" {
			return errors.New("has a path that servers rewrite: leave out //, /./ and /../")
		}
	}
	return nil
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
	if deviceName.MatchString(text) {
		return errors.New("is reserved on Windows: choose another name")
	}
	return folderName(text)
}

// headerName wants a header that fetch does not write itself.
func headerName(text string) error {
	if writtenHere.MatchString(text) {
		return errors.New("is written by resyncd itself: choose another header")
	}
	return headerToken(text)
}

func notVisible(r rune) bool { return r <= ' ' || !unicode.IsPrint(r) }

// isLoopback reports whether host is an address of this machine, or localhost.
func isLoopback(host string) bool {
	if ip, err := netip.ParseAddr(host); err == nil {
		return ip.Unmap().IsLoopback()
	}
	return strings.EqualFold(host, "localhost")
}

// Loopback reports whether a URL leads to this machine only.
func Loopback(raw string) bool {
	u, err := url.Parse(raw)
	if err != nil {
		return false
	}
	host := strings.ToLower(strings.TrimSuffix(u.Hostname(), "."))
	return isLoopback(host) || strings.HasSuffix(host, ".localhost")
}

// local reports whether only this machine can reach a listener.
func local(listen string) bool {
	host, _, err := net.SplitHostPort(listen)
	return err == nil && isLoopback(host)
}
