package subscribe

import (
	"resyncd/destination"
	"resyncd/destination/rsdoc"
	"resyncd/store"
)

// Offered are the channels that discovery found, as SetChannels takes them.
func Offered(found []destination.Channel) []Channel {
	channels := make([]Channel, 0, len(found))
	for _, c := range found {
		kind := store.ChannelChange
		switch c.Kind {
		case rsdoc.KindFrameworkNotification:
			kind = store.ChannelFramework
		case destination.KindFeed:
			kind = store.ChannelFeed
		}
		channels = append(channels, Channel{Kind: kind, Topic: c.Topic, Hubs: c.Hubs})
	}
	return channels
}
