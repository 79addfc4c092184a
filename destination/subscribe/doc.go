// Package subscribe knows how to get and keep WebSub subscriptions over months: which hub to ask, when to ask again,
// and what an answer changes. It refuses to know what hubs deliver, how they reach our callback and how we reach them.
//
// Each decision lies in store.Subscriptions before it is acted upon (S-23), so that a daemon may stop anywhere and go
// on from there (S-56).
//
// The subscriptions of one channel (a kind of notification of one set) form a chain. Its head is the one that is
// wanted; each other member is there because the head, or one in between, replaces it (store.Subscription.Replaces): an
// old callback or secret, a pair that was moved away from, a hub that failed. While the head is not verified, the live
// members are kept alive (make before break, S-51, S-52); once it is, they are unsubscribed after a grace.
//
// Rules are cited as S-nn, T-nn and Q-nn from websub.md, F-nn from faults.md.
package subscribe
