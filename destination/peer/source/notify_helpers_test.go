package source

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"

	"resyncd/destination/fetch"
	"resyncd/destination/rsdoc"
	"resyncd/destination/websub"
)

const testHub = "http://hub.example/websub"

// post is one request that a hub has got.
type post struct {
	header http.Header
	body   []byte
}

// topic is the topic that a post names.
func (p post) topic() string {
	links := websub.ParseLinks(p.header["Link"], nil)
	for _, self := range websub.Targets(links, "self") {
		return self
	}
	form, _ := url.ParseQuery(string(p.body))
	return form.Get("hub.topic")
}

// told is a notification that a hub has got.
type told struct {
	head    rsdoc.Head
	entries []rsdoc.Entry
	body    []byte
}

// script is a hub in the place of a network: answer decides about each post, nil takes them all.
type script struct {
	mu     sync.Mutex
	posts  []post
	answer func(n int, m fetch.Message) (*fetch.Answer, error)
}

func (k *script) send(ctx context.Context, m fetch.Message) (*fetch.Answer, error) {
	k.mu.Lock()
	k.posts = append(k.posts, post{m.Header, bytes.Clone(m.Body)})
	n := len(k.posts)
	k.mu.Unlock()
	if k.answer == nil {
		return &fetch.Answer{Status: 202}, nil
	}
	return k.answer(n, m)
}

// on returns what was posted about a topic.
func (k *script) on(topic string) []post {
	k.mu.Lock()
	defer k.mu.Unlock()
	var out []post
	for _, p := range k.posts {
		if p.topic() == topic {
			out = append(out, p)
		}
	}
	return out
}

func asTold(t failer, posts []post) []told {
	t.Helper()
	var out []told
	for _, p := range posts {
		checkXML(t, p.body)
		head, entries := read(t, p.body)
		out = append(out, told{head, entries, p.body})
	}
	return out
}

// scriptedSource is a Source whose hub is a script. The framework channel stays silent unless asked for.
func scriptedSource(t failer, o Options, k *script) *Source {
	t.Helper()
	o.Hub = testHub
	client := fetch.New(fetch.Options{})
	client.Close() // what it would be asked, the script answers
	o.Client = client
	s := newSource(t, o)
	for _, c := range s.channels() {
		c.send = k.send
	}
	return s
}

// running runs a Source and returns what ends it.
func running(t testing.TB, s *Source) (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- s.Run(ctx) }()
	return sync.OnceFunc(func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("Run: %v", err)
		}
	})
}

// realHub answers posts over a network.
type realHub struct {
	*httptest.Server
	posts chan post
}

func newRealHub(t testing.TB, status int) *realHub {
	k := &realHub{posts: make(chan post, 1000)}
	k.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil || r.Method != http.MethodPost {
			w.WriteHeader(http.StatusBadRequest)
			return
		}
		w.WriteHeader(status)
		k.posts <- post{r.Header, body}
	}))
	t.Cleanup(k.Close)
	return k
}

// journalOf is every change that the journal of a Source has.
func journalOf(s *Source) []event {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.journal.span(s.journal.lists[0].first, s.journal.total())
}

// notification is what became of one, as the log has it.
type notification struct {
	kind        rsdoc.Kind
	from, until string
	entries     int
	err         error
}

// errBehind is that of notifications that were dropped because too many waited.
var errBehind = errors.New("dropped")

// listener is a log that passes on what became of notifications.
type listener struct {
	hear  func(notification)
	about []slog.Attr
}

func hear(fn func(notification)) *slog.Logger { return slog.New(listener{hear: fn}) }

func (l listener) Enabled(context.Context, slog.Level) bool { return true }
func (l listener) WithGroup(string) slog.Handler            { return l }

func (l listener) WithAttrs(attrs []slog.Attr) slog.Handler {
	l.about = slices.Concat(l.about, attrs)
	return l
}

func (l listener) Handle(_ context.Context, r slog.Record) error {
	var n notification
	switch {
	case strings.HasPrefix(r.Message, "notifications dropped"):
		n.err = errBehind
	case !strings.HasPrefix(r.Message, "notification "):
		return nil
	}
	for _, a := range l.about {
		switch a.Key {
		case "kind":
			n.kind = rsdoc.Kind(a.Value.String())
		case "from":
			n.from = a.Value.String()
		case "until":
			n.until = a.Value.String()
		case "changes":
			n.entries = int(a.Value.Int64())
		}
	}
	r.Attrs(func(a slog.Attr) bool {
		n.err, _ = a.Value.Any().(error)
		return true
	})
	l.hear(n)
	return nil
}
