package hub

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"resyncd/destination/websub"
)

// The crowd of BenchmarkDeliver: 100 subscribers, of which 50 may be dead in three ways. Dead ones are tried again much
// sooner than by default, so that every round has them fail many times.
const (
	benchLive  = 50
	benchDead  = 50
	benchRetry = 100 * time.Millisecond
	benchPace  = 20 * time.Millisecond // between notifications, where latency is measured
	benchRound = 200                   // notifications of a round
)

// crowd is a hub, live subscribers that note when content came, and dead ones.
type crowd struct {
	*rig
	mu      sync.Mutex
	sent    map[string]time.Time // by body
	took    []time.Duration
	arrived chan struct{}
	client  *http.Client
}

func newCrowd(b *testing.B, dead int) *crowd {
	b.Helper()
	c := &crowd{rig: newRig(b, func(o *Options) { o.RetryBase, o.Log = benchRetry, nil }), sent: map[string]time.Time{},
		arrived: make(chan struct{}, 1<<20), client: &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 4}}}
	b.Cleanup(c.client.CloseIdleConnections)
	verified := make(chan struct{}, benchLive+benchDead)
	confirm := func(content http.HandlerFunc) string {
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
			if q.Method == http.MethodGet {
				_, _ = io.WriteString(w, q.URL.Query().Get("hub.challenge"))
				verified <- struct{}{}
				return
			}
			content(w, q)
		}))
		b.Cleanup(s.Close)
		return s.URL
	}
	for range benchLive {
		c.subscribe(confirm(c.take))
	}
	over, end := context.WithCancel(context.Background())
	var refusing []func()
	for i := range dead {
		switch i % 3 {
		case 0: // hangs
			c.subscribe(confirm(func(_ http.ResponseWriter, q *http.Request) {
				select {
				case <-over.Done():
				case <-q.Context().Done():
				}
			}))
		case 1: // breaks
			c.subscribe(confirm(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusInternalServerError) }))
		default: // is gone once it has confirmed: connections are refused
			s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
				_, _ = io.WriteString(w, q.URL.Query().Get("hub.challenge"))
				verified <- struct{}{}
			}))
			c.subscribe(s.URL)
			refusing = append(refusing, s.Close)
		}
	}
	stop := c.stop
	c.stop = func() { // those that hang must not hold it up
		end()
		stop()
	}
	b.Cleanup(c.stop) // before the servers close
	for range benchLive + dead {
		<-verified
	}
	for c.recorded() < benchLive+dead {
		<-time.After(time.Millisecond)
	}
	for _, refuse := range refusing {
		refuse()
	}
	return c
}

func (c *crowd) recorded() int {
	c.hub.mu.Lock()
	defer c.hub.mu.Unlock()
	return c.hub.registry.count
}

func (c *crowd) subscribe(callback string) {
	c.t.Helper()
	v := url.Values{"hub.mode": {"subscribe"}, "hub.callback": {callback}, "hub.topic": {aTopic}, "hub.secret": {"s"}}
	c.post(websub.FormType, v.Encode())
}

// take is what a live subscriber does with content.
func (c *crowd) take(_ http.ResponseWriter, q *http.Request) {
	body, _ := io.ReadAll(q.Body)
	now := time.Now()
	number, _, _ := strings.Cut(string(body), " ")
	c.mu.Lock()
	c.took = append(c.took, now.Sub(c.sent[number]))
	c.mu.Unlock()
	c.arrived <- struct{}{}
}

func (c *crowd) post(kind, body string) {
	c.t.Helper()
	req, err := http.NewRequestWithContext(context.Background(), http.MethodPost, c.url(), strings.NewReader(body))
	if err != nil {
		c.t.Fatal(err)
	}
	req.Header.Set("Content-Type", kind)
	req.Header.Set("Link", "<"+aTopic+`>; rel="self"`)
	resp, err := c.client.Do(req)
	if err != nil {
		c.t.Fatal(err)
	}
	_, _ = io.Copy(io.Discard, resp.Body)
	resp.Body.Close()
	if resp.StatusCode != http.StatusAccepted {
		c.t.Fatalf("answered %d", resp.StatusCode)
	}
}

// publish pushes n notifications of 1 KiB, one every pace, and waits until the live subscribers have them all. It returns
// how many deliveries a second that were, and their 99th percentile from the publisher's request on.
func (c *crowd) publish(n int, pace time.Duration) (perSecond float64, p99 time.Duration) {
	c.t.Helper()
	c.mu.Lock()
	c.took = c.took[:0]
	c.mu.Unlock()
	pad := " " + strings.Repeat("x", 1024)
	tick := time.NewTicker(max(pace, time.Nanosecond))
	defer tick.Stop()
	began := time.Now()
	for i := range n {
		if pace > 0 {
			<-tick.C
		}
		number := strconv.Itoa(i)
		c.mu.Lock()
		c.sent[number] = time.Now()
		c.mu.Unlock()
		c.post("text/plain", number+pad)
	}
	for range n * benchLive {
		<-c.arrived
	}
	perSecond = float64(n*benchLive) / time.Since(began).Seconds()
	c.mu.Lock()
	defer c.mu.Unlock()
	slices.Sort(c.took)
	return perSecond, c.took[len(c.took)*99/100]
}

// BenchmarkDeliver is content for 50 live subscribers, alone and beside 50 dead ones: deliveries a second as fast as
// one publisher goes, and the live ones' 99th percentile at a steady pace. ratio has both in turn, so that it holds on a
// machine that is busy with something else too: an iteration is one round of each.
func BenchmarkDeliver(b *testing.B) {
	for _, dead := range []int{0, benchDead} {
		b.Run(fmt.Sprintf("live=%d,dead=%d", benchLive, dead), func(b *testing.B) {
			c := newCrowd(b, dead)
			b.ResetTimer()
			perSecond, _ := c.publish(b.N, 0)
			b.StopTimer()
			_, p99 := c.publish(benchRound, benchPace)
			b.ReportMetric(perSecond, "deliveries/s")
			b.ReportMetric(float64(p99.Microseconds())/1000, "p99-ms")
		})
	}
	b.Run("ratio", func(b *testing.B) {
		var p99 [2][]float64
		for range b.N {
			for i, dead := range []int{0, benchDead} {
				c := newCrowd(b, dead)
				_, took := c.publish(benchRound, benchPace)
				p99[i] = append(p99[i], float64(took.Microseconds())/1000)
				c.stop()
			}
		}
		b.ReportMetric(median(p99[0]), "p99-alone-ms")
		b.ReportMetric(median(p99[1]), "p99-beside-dead-ms")
		b.ReportMetric(median(p99[1])/median(p99[0]), "ratio")
	})
}

func median(v []float64) float64 {
	slices.Sort(v)
	return v[len(v)/2]
}
