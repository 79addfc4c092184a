package callback

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"fmt"
	"strings"
	"sync"
	"time"

	"resyncd/store"
)

const (
	lookupTime = 3 * time.Second  // limit of a query
	remember   = 10 * time.Second // when changes by other processes are seen
	maxKnown   = 10_000           // subscriptions remembered
	maxToken   = 256              // bytes; ours are shorter
)

// lookup finds subscriptions by their tokens and remembers them for a moment, so that a busy
// channel costs few queries. Unknown tokens would cost memory. Keys are digests: comparing them
// reveals nothing.
type lookup struct {
	store store.Subscriptions

	mu      sync.Mutex
	known   map[[sha256.Size]byte]remembered
	changes uint64 // counts calls of forget
}

type remembered struct {
	sub   store.Subscription
	until time.Time
}

func newLookup(s store.Subscriptions) *lookup {
	return &lookup{store: s, known: make(map[[sha256.Size]byte]remembered)}
}

// find returns a subscription, perhaps as it was a moment ago.
func (l *lookup) find(ctx context.Context, token string) (store.Subscription, error) {
	if !wellFormed(token) {
		return store.Subscription{}, store.ErrNotFound
	}
	key := sha256.Sum256([]byte(token))
	l.mu.Lock()
	r, ok := l.known[key]
	changes := l.changes
	l.mu.Unlock()
	if now := time.Now(); ok && now.Before(r.until) {
		return r.sub, nil
	}
	sub, err := l.query(ctx, token)
	if err != nil {
		return sub, err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if changes != l.changes {
		return sub, nil // it may be the state before forget
	}
	if len(l.known) >= maxKnown {
		clear(l.known)
	}
	l.known[key] = remembered{sub: sub, until: time.Now().Add(remember)}
	return sub, nil
}

func (l *lookup) query(ctx context.Context, token string) (store.Subscription, error) {
	if !wellFormed(token) {
		return store.Subscription{}, store.ErrNotFound
	}
	ctx, cancel := context.WithTimeout(ctx, lookupTime)
	defer cancel()
	sub, err := l.store.SubscriptionByToken(ctx, token)
	if err != nil {
		return sub, fmt.Errorf("look up the subscription of a callback: %w", err)
	}
	if subtle.ConstantTimeCompare([]byte(sub.Token), []byte(token)) != 1 {
		return store.Subscription{}, store.ErrNotFound // the store may ignore letter case
	}
	return sub, nil
}

func (l *lookup) forget(token string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.changes++
	delete(l.known, sha256.Sum256([]byte(token)))
}

const tokenCharacters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.~"

// wellFormed: a text may be a token (S-21, S-22).
func wellFormed(token string) bool {
	return token != "" && len(token) <= maxToken && strings.Trim(token, tokenCharacters) == ""
}
