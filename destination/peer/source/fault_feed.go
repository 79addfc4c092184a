package source

import (
	"errors"
	"fmt"
	"mime"
	"strconv"
)

// FeedFaults are what is wrong with the feeds.
type FeedFaults struct {
	// Limit is how many entries a current document shows, although its archives are laid out for more; 0: no fault.
	Limit     int
	NoArchive bool
	// Undated and RSS are faults of the feed of changes alone.
	Undated bool
	RSS     bool
	// Links is "header" or "body" where hub and self are named nowhere else. Empty: in both.
	Links string
	// Type is a media type that is not that of the feed.
	Type string
}

// The values of FeedFaults.Links.
const (
	linksInHeader = "header"
	linksInBody   = "body"
)

func (f *FeedFaults) set(key, value string) error {
	want := func(word string, field *bool) error {
		if value != word {
			return fmt.Errorf("want %s", word)
		}
		*field = true
		return nil
	}
	switch key {
	case "limit":
		n, err := strconv.ParseUint(value, 10, 31)
		if err != nil || n < 1 {
			return errors.New("want a number from 1")
		}
		f.Limit = int(n)
	case "archive":
		return want("off", &f.NoArchive)
	case "undated":
		return want("on", &f.Undated)
	case "rss":
		return want("on", &f.RSS)
	case "links":
		if value != linksInHeader && value != linksInBody {
			return errors.New("want header or body")
		}
		f.Links = value
	case "type":
		if _, _, err := mime.ParseMediaType(value); err != nil {
			return errors.New("want a media type such as text/html")
		}
		f.Type = value
	default:
		return fmt.Errorf("unknown; known are:\n%s", FaultHelp)
	}
	return nil
}

// feedFaults are those asked for.
func (s *Source) feedFaults() FeedFaults {
	if s.options.Faults == nil {
		return FeedFaults{}
	}
	return s.options.Faults.Feed
}
