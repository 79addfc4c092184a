package feed

import (
	"bufio"
	"bytes"
	"io"
	"regexp"
	"strings"

	"golang.org/x/net/html/charset"
)

// lookAhead is how much of a document decides on its encoding and its start.
const lookAhead = 4 << 10

var (
	charsetParam  = regexp.MustCompile(`(?i);\s*charset\s*=\s*["']?\s*([^\s"';,]+)`)
	declaredInXML = regexp.MustCompile(`^[^<]*<\?xml[^>]*?\sencoding\s*=\s*["']([\w.:-]+)["']`)
)

// decode returns body as UTF-8, and a problem for people if its declared encoding is unusable. Invalid bytes are left
// for the input to mend, so that no declaration makes a document unreadable.
func decode(body io.Reader, contentType string) (*bufio.Reader, string) {
	raw := bufio.NewReaderSize(body, lookAhead)
	head, _ := raw.Peek(lookAhead) // an error comes again with the next read
	label, problem := encodingOf(head, contentType)
	if label == "" {
		return raw, problem
	}
	e, _ := charset.Lookup(label)
	return bufio.NewReaderSize(e.NewDecoder().Reader(raw), 4*lookAhead), problem
}

// encodingOf is the encoding of a document by RFC 7303, 3: the byte order mark, else the charset parameter, else the
// XML declaration; "" for UTF-8. An unknown name, or one that the first bytes contradict, is ignored.
func encodingOf(head []byte, contentType string) (label, problem string) {
	switch {
	case bytes.HasPrefix(head, []byte("\xEF\xBB\xBF")):
		return "", ""
	case bytes.HasPrefix(head, []byte("\xFE\xFF")), bytes.HasPrefix(head, []byte("\x00<\x00")):
		return "utf-16be", ""
	case bytes.HasPrefix(head, []byte("\xFF\xFE")), len(head) > 3 && head[0] == '<' && head[1] == 0 && head[3] == 0:
		return "utf-16le", ""
	}
	var said []string
	if m := charsetParam.FindStringSubmatch(contentType); m != nil {
		said = append(said, m[1])
	}
	if m := declaredInXML.FindSubmatch(head); m != nil {
		said = append(said, string(m[1]))
	}
	for _, s := range said {
		e, name := charset.Lookup(s)
		switch {
		case e == nil || name == "replacement" || name == "x-user-defined":
			problem = "encoding " + quote(s) + " is unknown, read as if it had not been named"
		// it would have two bytes each, which the first bytes would show
		case name == "utf-8" || strings.HasPrefix(name, "utf-16"):
			return "", problem
		default:
			return name, problem
		}
	}
	return "", problem
}
