package parsed

import (
	"encoding/json"

	"resyncd/destination/rsdoc"
)

// Link is what a row keeps of a link.
type Link struct {
	Rel  string `json:"rel"`
	Href string `json:"href"`
	Pri  int    `json:"pri,omitempty"`
	Type string `json:"type,omitempty"`
}

// MaxLinks bounds the links of one entry (P8).
const MaxLinks = 16

func linkString(links []rsdoc.Link) string {
	out := make([]Link, 0, min(len(links), MaxLinks))
	for _, l := range links[:min(len(links), MaxLinks)] {
		k := Link{Rel: l.Rel, Href: l.Href, Type: l.Type}
		if l.Pri < 999_999 {
			k.Pri = l.Pri
		}
		out = append(out, k)
	}
	return JoinLinks(out)
}

// JoinLinks writes links as a row keeps them.
func JoinLinks(out []Link) string {
	if len(out) == 0 {
		return ""
	}
	b, err := json.Marshal(out)
	if err != nil {
		return ""
	}
	return string(b)
}

// ParseLinks are the links that a row keeps.
func ParseLinks(kept string) (links []Link) {
	if kept == "" || json.Unmarshal([]byte(kept), &links) != nil {
		return nil
	}
	return links
}
