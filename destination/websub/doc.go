// Package websub knows the words of WebSub: the links by which topics and hubs name each other, the
// forms and queries that subscribers, hubs and publishers exchange, and the signatures of content.
// It refuses to know how they travel and what comes of them: no network, no state, no policy.
//
// Peers' input is read leniently and within bounds; output is plain and never empty. Rules are
// cited as S-nn, H-nn, P-nn, T-nn and Q-nn from websub.md.
package websub
