package destination

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"net/url"

	"resyncd/destination/rsdoc"
)

// log is a visitor that writes down what it sees.
type log struct {
	lines   []string
	entries int
	quiet   bool // count entries only
	enter   func(p *Part) bool
	entry   func(e *rsdoc.Entry) error
	failed  []error
}

func pathOf(raw string) string {
	u, err := url.Parse(raw)
	if err != nil {
		return raw
	}
	return u.RequestURI()
}

func (l *log) say(format string, args ...any) {
	if !l.quiet {
		l.lines = append(l.lines, fmt.Sprintf(format, args...))
	}
}

func (l *log) Enter(_ context.Context, p *Part) (bool, error) {
	return l.enter == nil || l.enter(p), nil
}

func (l *log) List(_ context.Context, p *Part, list *List) error {
	if list.Head == nil {
		l.say("unchanged %s", pathOf(p.URL))
		return nil
	}
	l.say("begin %s %s", pathOf(p.URL), list.Head.Kind)
	if err := list.Each(l.each); err != nil {
		return err
	}
	if list.Skipped > 0 {
		l.say("end %s skipped %d", pathOf(p.URL), list.Skipped)
		if list.Fault == nil {
			return errors.New("skipped entries without a reason")
		}
		return nil
	}
	l.say("end %s", pathOf(p.URL))
	return nil
}

func (l *log) each(e *rsdoc.Entry) error {
	l.entries++
	l.say("entry %s", pathOf(e.Loc))
	if l.entry != nil {
		return l.entry(e)
	}
	return nil
}

func (l *log) Failed(_ context.Context, p *Part, err error) error {
	l.say("failed %s", pathOf(p.URL))
	l.failed = append(l.failed, err)
	return nil
}

func gzipped(s string) []byte {
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	_, _ = z.Write([]byte(s))
	_ = z.Close()
	return b.Bytes()
}
