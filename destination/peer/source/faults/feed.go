package faults

import (
	"io"
	"time"

	"resyncd/destination/feed"
)

// Feed is what is wrong with the feeds.
type Feed struct {
	// Limit is how many entries a current document shows, although its archives are laid out for more; 0: no fault.
	Limit     int  `fault:"limit"`
	NoArchive bool `fault:"archive"`
	// Undated and RSS are faults of the feed of changes alone.
	Undated bool `fault:"undated"`
	RSS     bool `fault:"rss"`
	// Links is "header" or "body" where hub and self are named nowhere else. Empty: in both.
	Links string `fault:"links"`
	// Type is a media type that is not that of the feed.
	Type string `fault:"type"`
}

// The values of Feed.Links.
const (
	linksInHeader = "header"
	linksInBody   = "body"
)

// OfChanges are the faults of the feed of changes.
func (f *Set) OfChanges() Feed {
	if f == nil {
		return Feed{}
	}
	return f.Feed
}

// OfRecords are the faults of the record feed.
func (f *Set) OfRecords() Feed {
	out := f.OfChanges()
	out.Undated, out.RSS = false, false
	return out
}

// LinksInHeader reports whether hub and self are named in the header.
func (f Feed) LinksInHeader() bool { return f.Links != linksInBody }

// Head spoils the head of a document.
func (f Feed) Head(d *feed.Document) {
	if f.Links == linksInHeader {
		d.Self, d.Hubs = "", nil
	}
}

// Date is what an entry says instead of when it was updated.
func (f Feed) Date(t time.Time) time.Time {
	if f.Undated {
		return time.Time{}
	}
	return t
}

// Write writes a document; site is the page that it belongs to.
func (f Feed) Write(w io.Writer, d *feed.Document, site string) error {
	if f.RSS {
		return feed.WriteRSS(w, d, site)
	}
	return feed.Write(w, d)
}

// MediaType is what a document is served and pushed as.
func (f Feed) MediaType() string {
	switch {
	case f.Type != "":
		return f.Type
	case f.RSS:
		return "application/rss+xml"
	}
	return "application/atom+xml"
}
