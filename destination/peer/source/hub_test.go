package source

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"resyncd/destination/fetch"
	"resyncd/destination/websub"
)

// TestPublish posts over a network, in both ways, to hubs that answer in the ways in use.
func TestPublish(t *testing.T) {
	t.Parallel()
	for _, publish := range []Publish{PublishResourceSync, PublishTraditional} {
		for _, status := range []int{200, 202, 204} {
			t.Run(fmt.Sprint(publish, " ", status), func(t *testing.T) {
				t.Parallel()
				hub := newRealHub(t, status)
				client := fetch.New(fetch.Options{})
				defer client.Close()
				results := make(chan notification, 10)
				s := newSource(t, Options{Hub: hub.URL + "/websub?a=b", Publish: publish, Client: client, PublisherToken: "s3cret",
					Logger: hear(func(n notification) { results <- n })})
				stop := running(t, s)
				defer stop()
				mustPut(t, s, "a", "1")
				links := fmt.Sprintf(`<%s/websub?a=b>; rel="hub", <%%s>; rel="self", <%s>; rel="resourcesync"`, hub.URL, s.at(capabilityList))
				seen := map[string]bool{}
				for range 3 {
					p := <-hub.posts
					topic := p.topic()
					seen[topic] = true
					if topic == s.FeedURL() {
						continue // see TestFeedPush
					}
					if p.header.Get("Authorization") != "Bearer s3cret" {
						t.Errorf("token %q", p.header.Get("Authorization"))
					}
					// What the topic says now is what the hub was told of (P-05).
					resp := ask(s, "GET", topic)
					var body bytes.Buffer
					_, _ = body.ReadFrom(resp.Body)
					if got, want := resp.Header.Get("Link"), fmt.Sprintf(links, topic); got != want {
						t.Errorf("Link of the topic %s, want %s", got, want)
					}
					if publish == PublishTraditional {
						form, err := url.ParseQuery(string(p.body))
						want := url.Values{"hub.mode": {"publish"}, "hub.url": {topic}, "hub.topic": {topic}}
						if diff := cmp.Diff(want, form); diff != "" || err != nil || p.header.Get("Content-Type") != websub.FormType {
							t.Errorf("ping %v, %s", p.header, diff)
						}
						continue
					}
					if p.header.Get("Content-Type") != "application/xml" || p.header.Get("Link") != fmt.Sprintf(links, topic) {
						t.Errorf("header %v", p.header)
					}
					if !bytes.Equal(p.body, body.Bytes()) {
						t.Errorf("posted\n%s\nthe topic says\n%s", p.body, body.Bytes())
					}
				}
				if !seen[s.at(changeTopic)] || !seen[s.at(frameworkTopic)] {
					t.Errorf("told of %v", seen)
				}
				for range 3 {
					if n := <-results; n.err != nil || n.entries != 1 {
						t.Errorf("heard %+v", n)
					}
				}
			})
		}
	}
}

// TestStopsWhileTheHubHangs ends Run in the middle of a post.
func TestStopsWhileTheHubHangs(t *testing.T) {
	t.Parallel()
	asked := make(chan struct{}, 3)
	s := scriptedSource(t, Options{Logger: hear(func(n notification) { t.Errorf("heard %+v", n) })}, &script{})
	hang := func(ctx context.Context, _ fetch.Message) (*fetch.Answer, error) {
		asked <- struct{}{}
		<-ctx.Done()
		return nil, ctx.Err()
	}
	for _, c := range s.channels() {
		c.send = hang
	}
	stop := running(t, s)
	mustPut(t, s, "a", "1")
	for range s.channels() {
		<-asked
	}
	stop()
}

func TestHubOptions(t *testing.T) {
	t.Parallel()
	client := fetch.New(fetch.Options{})
	defer client.Close()
	for what, o := range map[string]Options{
		"no client":       {Hub: testHub},
		"no hub":          {Publish: PublishTraditional},
		"unknown way":     {Hub: testHub, Publish: "loud", Client: client},
		"relative":        {Hub: "/hub", Client: client},
		"ftp":             {Hub: "ftp://hub.example/", Client: client},
		"fragment":        {Hub: testHub + "#x", Client: client},
		"user":            {Hub: "http://u:pass@hub.example/", Client: client},
		"too many":        {Hub: testHub, Client: client, NotifyMax: 50_001},
		"negative number": {Hub: testHub, Client: client, NotifyMax: -1},
		"negative time":   {Hub: testHub, Client: client, NotifyEvery: -1},
	} {
		o.Base = testBase
		_, err := New(context.Background(), o)
		if err == nil || strings.Contains(err.Error(), "pass@") {
			t.Errorf("%s: %v", what, err)
		}
	}
	if err := (Options{Hub: testHub}).Check(); err != nil {
		t.Errorf("a Client may follow: %v", err)
	}
	s := newSource(t, Options{Hub: testHub, Publish: PublishOff})
	if resp := ask(s, "GET", "/"+changeTopic); resp.StatusCode != http.StatusNotFound {
		t.Errorf("a topic without a hub: %s", resp.Status)
	}
	if body := get(t, s, "/"+capabilityList); bytes.Contains(body, []byte("notification")) {
		t.Errorf("a channel without a hub:\n%s", body)
	}
}
