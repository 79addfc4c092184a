package destination

import "resyncd/destination/rsdoc"

// Limits bound what documents may cost (P8). A zero field means its default.
type Limits struct {
	Document rsdoc.Limits
	// SmallEntries and SmallBytes bound a document that is held whole. SmallBytes counts its URLs, types and links.
	// Defaults 100,000 and 32 MiB.
	SmallEntries int
	SmallBytes   int64
	// FeedBytes bounds a feed by its inflated size; default 32 MiB.
	FeedBytes int64
	// Parts is how many lists one walk reads; default 100,000.
	Parts int
	// Depth is how many levels of indexes one walk descends, and how deep Source Descriptions may nest; default 3
	// (F67).
	Depth int
	// Requests is how many documents one discovery reads; default 2,000.
	Requests int
}

func (l Limits) withDefaults() Limits {
	if l.SmallEntries <= 0 {
		l.SmallEntries = 100_000
	}
	if l.SmallBytes <= 0 {
		l.SmallBytes = 32 << 20
	}
	if l.FeedBytes <= 0 {
		l.FeedBytes = 32 << 20
	}
	if l.Parts <= 0 {
		l.Parts = 100_000
	}
	if l.Depth <= 0 {
		l.Depth = 3
	}
	if l.Requests <= 0 {
		l.Requests = 2_000
	}
	return l
}

const (
	pageBytes   = 512 << 10 // of an HTML page or robots.txt
	pageLinks   = 10        // links followed from one page
	pageFeeds   = 5         // read until one is a feed
	sniffed     = 16 << 10  // decide whether it is a feed
	emptyHops   = 5         // on the way to a topic without a body
	robotsLines = 50        // Sitemap lines followed
	upSteps     = 5         // links followed upwards from a list
	// restarts is how often a document whose body breaks off is begun again, beyond what RetryFor allows.
	restarts     = 2
	giveUpInARow = 10 // transient failures in a row that end a walk
)
