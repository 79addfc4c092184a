package console

import (
	"io"
	"mime"
	"net/http"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"resyncd/sync/report"
)

const mostURI = 8 << 10

type findPage struct {
	Query string
	Found
}

func (c *console) find(w http.ResponseWriter, r *http.Request, name string) {
	body := findPage{Query: r.URL.Query().Get("q")}
	if len(body.Query) > mostURI {
		say(w, http.StatusRequestURITooLong, "that is too long to look for")
		return
	}
	if body.Query != "" {
		var err error
		if body.Found, err = c.Data.Find(r.Context(), name, body.Query); err != nil {
			c.fail(w, r, "find", err)
			return
		}
	}
	c.show(w, r, http.StatusOK, "find", page{Title: "Search in " + plain(name), Source: name, Body: body})
}

func (c *console) resource(w http.ResponseWriter, r *http.Request, name string) {
	view, err := c.Data.Resource(r.Context(), name, r.URL.Query().Get("uri"))
	if err != nil {
		c.fail(w, r, "resource", err)
		return
	}
	slices.Reverse(view.History) // the later one comes later
	slices.SortStableFunc(view.History, func(a, b report.HistoryLine) int { return b.At.Compare(a.At.Time) })
	p := page{Title: "Resource in " + plain(name), Source: name, Body: view}
	if view.InTrash {
		p.Token = c.token(w, r)
	}
	c.show(w, r, http.StatusOK, "resource", p)
}

const bytesTime = 30 * time.Second

// bytes answers with what a stranger wrote: to be saved, never shown as a page of ours.
func (c *console) bytes(w http.ResponseWriter, r *http.Request, name string) {
	ctx, cancel := orEnding(r.Context())
	defer cancel()
	out := newDrip(w, bytesTime)
	from, info, err := c.Data.Open(ctx, name, r.URL.Query().Get("uri"))
	if err != nil {
		c.fail(w, r, "bytes", err)
		return
	}
	defer from.Close()
	h := w.Header()
	h.Set("Content-Type", harmless(info.Type))
	h.Set("Content-Disposition", attachment(info.Name))
	h.Set("Content-Security-Policy", "sandbox; default-src 'none'")
	if info.Length >= 0 {
		h.Set("Content-Length", strconv.FormatInt(info.Length, 10))
	}
	if !info.Modified.IsZero() {
		h.Set("Last-Modified", info.Modified.UTC().Format(http.TimeFormat))
	}
	if r.Method == http.MethodHead {
		return
	}
	body := io.Reader(from)
	if info.Length >= 0 {
		body = io.LimitReader(from, info.Length)
	}
	n, err := io.Copy(out, body)
	if (err != nil || info.Length >= 0 && n < info.Length) && !out.gone && ctx.Err() == nil {
		c.Log.Warn("mirrored bytes were cut short", "source", name, "sent", n, "of", info.Length, "err", err)
		panic(http.ErrAbortHandler) // a part is not the whole
	}
}

// harmless has text stay text; all else is bytes.
func harmless(kind string) string {
	if t, _, err := mime.ParseMediaType(kind); err == nil && t == "text/plain" {
		return "text/plain; charset=utf-8"
	}
	return "application/octet-stream"
}

// attachment has bytes saved under a name that is one on every system.
func attachment(name string) string {
	name = path.Base(strings.ReplaceAll(name, `\`, "/"))
	name = strings.Map(func(r rune) rune {
		if unseen(r) || strings.ContainsRune(`/\:*?"<>|%;`, r) {
			return '_'
		}
		return r
	}, name)
	for len(name) > 150 {
		_, n := utf8.DecodeRuneInString(name)
		name = name[n:]
	}
	if strings.Trim(name, ". ") == "" {
		name = "resource"
	}
	if value := mime.FormatMediaType("attachment", map[string]string{"filename": name}); value != "" {
		return value
	}
	return "attachment"
}
