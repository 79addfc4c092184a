package source

import (
	"bytes"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"resyncd/destination/websub"
)

// serveFeed answers with a document of a feed: the current one, which is a topic where there is a hub, or an archive. It
// is never compressed: one representation for one self URI (P-04).
func (s *Source) serveFeed(w http.ResponseWriter, r *http.Request, f *webFeed, archive int) {
	if f.channel != nil && archive == 0 && r.Method == http.MethodGet {
		f.channel.topic.current(true) // before the look, which then has what the hub was told of
	}
	d, ok := f.look(archive)
	if !ok {
		http.Error(w, "no such archive", http.StatusNotFound)
		return
	}
	body, err := f.document(d)
	if err != nil {
		s.options.Logger.Error("feed not written", "path", r.URL.EscapedPath(), "err", err)
		http.Error(w, "the feed cannot be written", http.StatusInternalServerError)
		return
	}
	h := w.Header()
	h.Set("Content-Type", f.faults.MediaType())
	h.Set("Cache-Control", "no-cache")
	if archive == 0 && f.faults.LinksInHeader() {
		h.Set("Link", f.links())
	}
	h.Set("ETag", fmt.Sprintf(`"%s-f%d.%d.%d.%d"`, strconv.FormatInt(int64(s.begin), 36), d.from, d.to, d.prev, d.next))
	var modified time.Time
	if d.changed.Known() {
		modified = s.stable(d.changed.Time())
		r = exactSince(r, d.changed.Time())
	}
	allowTime(w, int64(len(body)))
	http.ServeContent(w, r, "", modified, bytes.NewReader(body))
}

// links is the Link header of the feed, the same as what is in it (P-01).
func (f *webFeed) links() string {
	if f.channel == nil {
		return websub.LinkHeader("", f.url())
	}
	return f.channel.links()
}

// feedLink is a feed as the root page leads to it.
type feedLink struct {
	URL, Title string
	RSS        bool
}

func (s *Source) feedLinks() []feedLink {
	var links []feedLink
	for _, f := range s.feeds() {
		links = append(links, feedLink{f.url(), f.title, f.faults.RSS})
	}
	return links
}
