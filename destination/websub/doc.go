// Package websub knows the words of WebSub: the links by which topics and hubs name each other, the forms and queries that
// subscribers, hubs and publishers exchange, and the signatures under content. It refuses to know how they travel and
// what comes of them: no network, no state, no policy.
//
// What comes from a peer is read leniently and within bounds; what is written is plain and never empty. Rules are cited
// as S-nn, H-nn, P-nn, T-nn and Q-nn from spec/websub.md.
package websub
