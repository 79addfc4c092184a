package feed

import (
	"bufio"
	"bytes"
	"io"
	"regexp"
	"strings"

	"golang.org/x/net/html/charset"
)

// lookAhead is how much of a document decides on its encoding and on where it begins.
const lookAhead = 4 << 10

var (
	charsetParam  = regexp.MustCompile(`(?i);\s*charset\s*=\s*["']?\s*([^\s"';,]+)`)
	declaredInXML = regexp.MustCompile(`^[^<]*<\?xml[^>]*?\sencoding\s*=\s*["']([\w.:-]+)["']`)
)

// decode returns body as UTF-8, and a problem for people where its declared encoding is of no use. Bytes that are not
// what they should be are left for the input to mend: no declaration can make a document unreadable.
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
// XML declaration; "" for UTF-8. What a name says that nobody knows, or that the first bytes belie, counts for nothing.
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
		case name == "utf-8" || strings.HasPrefix(name, "utf-16"): // of two bytes each it is not, or we had seen it
			return "", problem
		default:
			return name, problem
		}
	}
	return "", problem
}
