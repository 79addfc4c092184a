package daemon

import (
	"reflect"
	"slices"

	"resyncd/cmd/resyncd/internal/config"
)

// configDiff is what a new configuration asks of a running daemon.
type configDiff struct {
	added   []config.Source
	removed []string
	// anew: what is fetched, or how, changed; the Source gets a new Follower and keeps its leases. agreed: only what is
	// agreed with hubs changed; nothing is stopped.
	anew, agreed []config.Source
	restart      []string // keys that take effect at the next start
}

// compareConfigs draws the difference between two valid configurations.
func compareConfigs(old, now *config.Config) configDiff {
	var d configDiff
	for _, s := range old.Sources {
		if _, ok := now.Source(s.Name); !ok {
			d.removed = append(d.removed, s.Name)
		}
	}
	for _, s := range now.Sources {
		was, ok := old.Source(s.Name)
		switch {
		case !ok:
			d.added = append(d.added, s)
		case reflect.DeepEqual(was, s):
		case reflect.DeepEqual(withoutAgreement(was), withoutAgreement(s)):
			d.agreed = append(d.agreed, s)
		default:
			d.anew = append(d.anew, s)
		}
	}
	d.restart = changedKeys("", reflect.ValueOf(old).Elem(), reflect.ValueOf(now).Elem())
	return d
}

// withoutRestart are the keys that take effect by a reload, or that no daemon goes by; of a file of secrets its text
// counts.
var withoutRestart = [...]string{"sources", "defaults", "network.retry_for", "console.password_file",
	"console.token_file"}

// changedKeys names the keys below prefix whose values are not alike.
func changedKeys(prefix string, was, is reflect.Value) (keys []string) {
	for i := range was.NumField() {
		key := was.Type().Field(i).Tag.Get("key")
		a, b := was.Field(i), is.Field(i)
		switch {
		case key == "" || slices.Contains(withoutRestart[:], prefix+key):
		case prefix == "" && a.Kind() == reflect.Struct:
			keys = append(keys, changedKeys(key+".", a, b)...)
		case a.Kind() == reflect.Slice && a.Len()+b.Len() == 0: // nil or not
		case !reflect.DeepEqual(a.Interface(), b.Interface()):
			keys = append(keys, prefix+key)
		}
	}
	return keys
}

// withoutAgreement leaves out what only hubs and the callback server have to know. The topic of a feed is also what is
// pulled.
func withoutAgreement(s config.Source) config.Source {
	s.Push, s.Lease, s.Secret, s.MinSignature = "", 0, "", ""
	if s.Kind != config.KindFeed {
		s.Hub, s.Topic = "", ""
	}
	return s
}

// merged is the configuration that the daemon goes by after a reload: the new Sources, and of the rest what it was
// started with.
func merged(old, now *config.Config) *config.Config {
	out := *old
	out.Sources, out.Defaults = now.Sources, now.Defaults
	return &out
}
