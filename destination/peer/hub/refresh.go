package hub

import (
	"time"

	"resyncd/destination/websub"
	"resyncd/store"
)

// refreshPart is how much of a lease is left when a subscriber of PubSubHubbub 0.3 is asked whether it wants another: one
// in so many parts. There subscribers need not renew, a lease that they did not ask for lasts for ever, and it is for the
// hub to ask again in time (websub.md 7).
const refreshPart = 4

// refresh asks the subscriber of a lane again if it is time to. Who does not confirm loses nothing but the renewal, and is
// asked again at half of what is left. h.mu is held.
func (h *Hub) refresh(l *lane, now store.Micros) {
	length, left := l.expires-l.verified, l.expires-now
	if !l.old || left > length/refreshPart || l.refresh.Known() && now < l.refresh {
		return
	}
	in := &intent{refresh: true}
	in.form.old = true
	in.form.HubForm = websub.HubForm{
		Mode: websub.ModeSubscribe, Callback: l.callback, Topic: l.topic.url, VerifyToken: l.token,
		Lease: int64(length / store.Micros(time.Second/time.Microsecond)),
	}
	if h.append(in) == nil { // else there is room at the next sweep
		l.refresh = now + left/2
	}
}
