package source

import (
	"fmt"
	"sync"

	"resyncd/destination/rsdoc"
)

// topic is what the topic URI of a channel shows.
type topic struct {
	mu     sync.Mutex
	body   []byte
	at     rsdoc.Micros
	number uint64
	// read is closed when somebody fetches the body.
	read chan struct{}
	done bool // read is closed
}

// show replaces the body. Nobody fetches it while build works, which gets whether the present one was fetched.
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

func (t *topic) fetched() <-chan struct{} {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.read
}

func (t *topic) current(fetch bool) (body []byte, at rsdoc.Micros, number uint64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if fetch && t.read != nil && !t.done {
		close(t.read)
		t.done = true
	}
	return t.body, t.at, t.number
}

// text is the topic: the links that name hub and topic (P-01, R-04), and the latest notification.
func (c *channel) text(fetched bool) text {
	body, at, number := c.topic.current(fetched)
	if number == 0 {
		at = c.s.begin
	}
	return text{
		tag: fmt.Sprintf("n%d", number), modified: at, mediaType: c.mediaType,
		body: body, links: c.links(),
	}
}
