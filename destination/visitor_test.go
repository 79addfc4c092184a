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
	enter   func(p *Part) Verdict
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

func (l *log) Enter(_ context.Context, p *Part) (Verdict, error) {
	if l.enter == nil {
		return Read, nil
	}
	return l.enter(p), nil
}

func (l *log) Unchanged(_ context.Context, p *Part) error {
	l.say("unchanged %s", pathOf(p.URL))
	return nil
}

func (l *log) Begin(_ context.Context, p *Part, h *rsdoc.Head) error {
	l.say("begin %s %s", pathOf(p.URL), h.Kind)
	return nil
}

func (l *log) Entry(_ context.Context, _ *Part, e *rsdoc.Entry) error {
	l.entries++
	l.say("entry %s", pathOf(e.Loc))
	if l.entry != nil {
		return l.entry(e)
	}
	return nil
}

func (l *log) End(_ context.Context, p *Part, _ *rsdoc.Head, skipped int64, first error) error {
	if skipped > 0 {
		l.say("end %s skipped %d", pathOf(p.URL), skipped)
		if first == nil {
			return errors.New("skipped entries without a reason")
		}
		return nil
	}
	l.say("end %s", pathOf(p.URL))
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
