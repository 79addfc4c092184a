// Package keeper knows how to get and keep WebSub subscriptions over months: whom to ask, when to ask again, and what a
// hub's words change. It refuses to know what hubs deliver, how they reach our callback and how we reach them.
//
// Everything it decides lies in store.Subscriptions before it is acted upon (S-23), so that a daemon may stop anywhere and
// go on from there (S-56). In memory are only a timetable, and what the configuration and discovery said last.
//
// The subscriptions of one kind of channel of one set are a family. Its head is the one that is wanted; each other one is
// there because the head, or one in between, replaces it (store.Subscription.Replaces): a callback or secret that grew
// old, a pair that was moved away from, a hub that failed. While the head is not verified, those that are alive are kept
// alive (make before break, S-51, S-52); once it is, they are unsubscribed after a grace.
//
// Rules are cited as S-nn, T-nn and Q-nn from spec/websub.md, F-nn from faults.md.
package keeper
