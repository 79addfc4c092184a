package console

import "time"

type actForm struct {
	Source, Token, Action, Label string
	Fields                       []field
}

type field struct{ Name, Value string }

// newAct makes a form; more are names and values of hidden fields.
func newAct(p *page, action, label string, more ...string) actForm {
	f := actForm{Source: p.Source, Token: p.Token, Action: action, Label: label}
	for i := 0; i+1 < len(more); i += 2 {
		f.Fields = append(f.Fields, field{more[i], more[i+1]})
	}
	return f
}

type itemList struct {
	Source, Kind string
	Now          time.Time
	Items        []Item
	All          int64
}

func newItems(p *page, items []Item, all int64, kind string) itemList {
	return itemList{Source: p.Source, Kind: kind, Now: p.Now, Items: items, All: all}
}

// More reports whether there are more than are shown.
func (l itemList) More() bool { return l.All > int64(len(l.Items)) }

func rejected(c ChannelView) bool { return c.BadSignature+c.TooLarge+c.Malformed > 0 }
