package source

import (
	"bytes"
	"fmt"
	"net/http"
	"strconv"
	"sync"

	"resyncd/destination/rsdoc"
)

// topic is what the topic URI of a channel says: the latest notification, or nothing before the first.
type topic struct {
	mu     sync.Mutex
	body   []byte
	at     rsdoc.Micros
	number uint64
	// read is closed when somebody fetches the body; nil while there is none.
	read chan struct{}
	done bool // read is closed
}

// show replaces what the topic says. While build works, which is told whether the present body was fetched, nobody fetches it.
func (t *topic) show(build func(fetched bool) ([]byte, rsdoc.Micros, error)) ([]byte, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	body, at, err := build(t.read == nil || t.done)
	if err != nil {
		return nil, err
	}
	t.body, t.at, t.read, t.done = body, at, make(chan struct{}), false
	t.number++
	return body, nil
}

// fetched returns a channel that is closed when the present body has been asked for; nil if there is none.
func (t *topic) fetched() <-chan struct{} {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.read
}

// current returns what the topic says, and notes that it was fetched if it was.
func (t *topic) current(fetch bool) (body []byte, at rsdoc.Micros, number uint64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if fetch && t.read != nil && !t.done {
		close(t.read)
		t.done = true
	}
	return t.body, t.at, t.number
}

// topicAt finds the channel whose topic has this name.
func (s *Source) topicAt(name string) *channel {
	for _, c := range s.setChannels() {
		if c.name == name {
			return c
		}
	}
	return nil
}

// serveTopic answers with the links that name hub and topic (P-01, R-04), and with the latest notification. It is never
// compressed: one representation for one self URI (P-04).
func (s *Source) serveTopic(w http.ResponseWriter, r *http.Request, c *channel) {
	body, at, number := c.topic.current(r.Method == http.MethodGet)
	if number == 0 {
		at = s.begin
	}
	h := w.Header()
	h.Set("Content-Type", notificationType)
	h.Set("Link", c.links())
	h.Set("Cache-Control", "no-cache")
	h.Set("ETag", fmt.Sprintf(`"%s-n%d"`, strconv.FormatInt(int64(s.begin), 36), number))
	r = exactSince(r, at.Time())
	allowTime(w, int64(len(body)))
	http.ServeContent(w, r, "", s.stable(at.Time()), bytes.NewReader(body))
}
