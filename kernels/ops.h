/* clang-format off */
/*
 * ops.h - the operations table: the one interface between programs and hardware.
 *
 * An operation reads in[], writes out[], and uses attr and the step's scalars; it allocates
 * nothing, knows no rank and no layout. The CPU backend (kernels/cpu) is the specification; CUDA
 * is held to it by a test. Every kernel is deterministic for a given number of threads, and
 * bit-identical for every number of threads except where GEMM's library decides otherwise; a device
 * need not be where attr.any_order says so.
 *
 * Storage types: activations, weights and their gradients-in-flight are fp32, bf16 or fp16 (one of
 * them per program); arithmetic and accumulation are fp32 or better; parameter gradients,
 * optimizer state, statistics and losses are fp32 (or double where said). What alone may be rounded
 * to a storage type of 16 bits on the way: ATTENTION's probabilities and gradients of scores, before
 * they are multiplied, where products are of that type (`multiplies`, or a device).
 *
 * Accumulation: acc[o] says whether out[o] is overwritten or added to. SN_ADD is legal only where
 * the table below marks the output "+".
 * Exact sums: attr.exact.of says that sums have the same bits in every order, so that parts of them may
 * be anywhere: terms are rounded to multiples of a quantum and added in fp64 (exact.h). A term is a row
 * of COLSUM, of norms' dw and db, of EMBED_GRAD and POS_GRAD; the product over `depth` of k, the bias and
 * the addend of GEMM; the loss of a row; the square of a gradient, exactly, to scalars.sq_exact in place of
 * sq_norm. The outputs that are sums of rows, and C, may then be fp64. CROSS_ENTROPY and CE_PART take the
 * vocabulary in parts of `depth` words, of which CE_PART gives one after the other: part[P R,3].
 * Where rows lie: row r of an operand of T rows has the sample and position that kernels/position.h
 * says; with one context rank and row0 = 0 that is sample r / S, position r % S.
 *
 * Places: an output may be the same memory as the input named under "may take"; otherwise outputs
 * overlap nothing.
 *
 * kind          in                                        out (+ may accumulate)     may take
 * ------------- ----------------------------------------- -------------------------- ---------
 * ZERO          -                                         0 any                       -
 * COPY          0 x (any dtype)                           0+ y (any dtype: a cast)    -
 * EMBED         0 ids[T,1] i32, 1 W[V,D], 2 P[>=S,D]?     0 y[T,D]                    -
 *               y[r] = W[ids[r] - vocab_first] (+ P[position of r]); an id outside the rows of W
 *               has its row on another rank and counts as a row of zeros here
 * EMBED_GRAD    0 ids[T,1], 1 dy[T,D]                     0+ dW[V,D] f32              -
 *               only SN_ADD exists for it: a ZERO operation initialises dW. Ids outside the rows
 *               of dW (from vocab_first on) are passed over
 * POS_GRAD      0 dy[T,D]                                 0+ dP[>=S,D] f32            -
 *               dP[position of r] += dy[r]; rows of dP whose position no row has are written as
 *               zero under SN_WRITE
 * LAYERNORM     0 x[T,D], 1 w[1,D], 2 b[1,D], 3 g[T,D]?,  0 y[T,D], 1 stats[T,2] f32, 0: in 3
 *               4 parts[P T,2] f32?                       2 s[T,D]?                  2: in 0 or 3
 *               stats = (mean, 1/sqrt(var + eps)); var is the biased one. With g, and only then: of
 *               s = x + g, rounded to its type before it is normalised: the bits are those of an ADD
 *               and a norm of its result. s and y are never in the same place. With parts, and then
 *               without g: x is one of P slices of a row's features, all as long, and parts are what
 *               NORM_PART gives of them, slice by slice; statistics are those of the whole row
 * LAYERNORM_DX  0 dy[T,D], 1 x[T,D], 2 w, 3 stats, 4 g?,  0 dx[T,D] (+ addend g),     0: in 0 or 4
 *               5 parts[P T,2] f32?                       1+ dw[1,D] f32?, 2+ db[1,D]?
 *               parts: what NORM_DX_PART gives of the P slices; dx is that of the whole row
 *               dw, db: those of LAYERNORM_DW, so that dy and x are read once for all three
 * LAYERNORM_DW  0 dy[T,D], 1 x[T,D], 2 stats              0+ dw[1,D] f32?, 1+ db[1,D]? -
 * RMSNORM       0 x[T,D], 1 w[1,D], 3 g[T,D]?,            0 y[T,D], 1 stats[T,1] f32, 0: in 3
 *               4 parts[P T,1] f32?                       2 s[T,D]?                  2: in 0 or 3
 *               stats = 1/sqrt(mean(x^2) + eps); g, s and parts as LAYERNORM's. Weights are attr.shift + w,
 *               here and wherever a gradient, or a part of one, reads the w of such a norm
 * RMSNORM_DX    0 dy, 1 x, 2 w, 3 stats, 4 g?,            0 dx (+ addend g),          0: in 0 or 4
 *               5 parts[P T,1] f32?                       1+ dw[1,D] f32?
 * RMSNORM_DW    0 dy, 1 x, 2 stats                        0+ dw[1,D] f32              -
 * NORM_PART     0 x[T,D]                                  0 part[T,K] f32             -
 *               of a slice of a row's features; K = 1: mean(x^2), K = 2: (mean(x), mean of (x - mean)^2)
 * NORM_DX_PART  0 dy[T,D], 1 x[T,D], 2 w, 3 stats[T,K]    0 part[T,K] f32             -
 *               K = 1: mean_j(w_j dy_j x_j); K = 2: (mean_j(w_j dy_j), mean_j(w_j dy_j h_j)), where
 *               h = (x - mean) scale
 * HEAD_NORM     0 x[T,C], 1 w[1,2d]                       0 y[T,C], 1 stats[T,H+G] f32 -
 *               RMS norms of heads, each by itself: the first H = attr.attention.heads blocks of
 *               head_dim = d columns with weights 0 .. d - 1, the G = kv_heads behind them with the
 *               others; further columns are copied. stats = 1/sqrt(mean(x^2) + eps) of each block;
 *               attr.shift as RMSNORM's
 * HEAD_NORM_DX  0 dy, 1 x, 2 w, 3 stats                   0 dx, 1+ dw[1,2d] f32?      0: in 0
 * HEAD_NORM_DW  0 dy, 1 x, 2 stats                        0+ dw[1,2d] f32             -
 * GEMM          0 A, 1 B, 2 bias[1,N]?, 3 addend[M,N]?,   0+ C[M,N], 1+ by epilogue?  0: in 3
 *               4 by epilogue?
 *               C = op(A) op(B) (+ bias to every row) (+ addend); op transposes when trans_a /
 *               trans_b is set; sizes follow from the operands. A, B share a dtype; C may be f32
 *               fp8: A and B, of bf16, are rounded first to 8-bit floats times powers of two (fp8.h).
 *               FORWARD, BACKWARD: each operand has one; to e4m3, A of BACKWARD to e5m2. BLOCKS,
 *               LINES: all to e4m3; A has one for each line of 128 elements along the depth, B for
 *               each block of 128 x 128 (BLOCKS) or for such lines too (LINES)
 *               epilogue: another operation in one with the product, so that it reads and writes less:
 *                 ACT     x = the C of above, rounded to its type, is out 1[M,N] of that type, where
 *                         that is wanted; C = ACT of x
 *                 ACT_DX  d = the C of above, rounded to its type, is nowhere; C = ACT_DX of d and
 *                         in 4[M,N]
 *                 COLSUM  out 1+ db[1,M] f32 (+)= COLSUM of in 0 as it is stored; trans_a
 *               ACT, ACT_DX: no addend, no SN_ADD. A device may take the activation, or its slope, of
 *               the sum before it is rounded, and add columns in fp32, in an order of its own
 * COLSUM        0 dy[T,N]                                 0+ db[1,N] f32              -
 * ROPE          0 x[T, C]                                 0 y[T, C]                   0: in 0
 *               rotates the first `heads` blocks of head_dim columns, in each the rotary_dim ones from
 *               rotary_from on as half-split pairs (i, i + rotary_dim/2), or `interleaved` ones (2i, 2i + 1),
 *               pair i by +-position theta^(-2i/rotary_dim), or frequencies[i], times amplitude; `inverse`
 *               turns back (the gradient). Others are copied
 * MLA_JOIN      0 q[T,H d], 1 kv[T,H (n + e)],            0 y[T,2 H d + H e]          -
 *               2 r[T,d - n]
 *               multi-head latent attention: y = q | k | v, three operands of ATTENTION side by side. Head h
 *               of k is the first n of its n + e columns of kv, then r, which all heads share; of v the last e
 *               (e as ATTENTION's; n = d - columns of r). All are of one type
 * MLA_JOIN_DX   0 dy[T,2 H d + H e]                       0 dq[T,H d], 1 dkv[T,H (n + e)], -
 *                                                         2 dr[T,d - n]
 *               moves, and dr: the sum over the heads here, in their order, in fp32, rounded once; dr may be f32
 * ATTENTION     0 q[T,H*d], 1 k[T,G*d], 2 v[T,G*e],       0+ o[T,H*e], 1+ lse[T,H] f32 -
 *               3 starts[N S,1 or 2] i32?
 *               e = v_dim, or d where that is 0; q, k and v may be columns of one buffer
 *               within each sample, over the keys that the query sees (kernels/mask.h); scores s are times
 *               attr.attention.scale > 0, and with cap > 0 then cap tanh(s / cap); head h reads kv head h*G/H;
 *               never holds an S x S matrix (blocks, online softmax); lse = log sum exp of the
 *               scaled scores. drop > 0: dropout of the probabilities, element (head0 + h, query
 *               position, key position). Queries have the positions of context_rank, keys those of
 *               key_rank. SN_ADD (both
 *               outputs): merges with the (o, lse) that earlier keys gave, exactly; o may be f32.
 *               A query that sees none of the keys: SN_WRITE gives o = 0, lse = -inf, SN_ADD
 *               changes nothing
 * ATTENTION_DX  0 q, 1 k, 2 v, 3 o, 4 do, 5 lse,          0+ dq, 1+ dk, 2+ dv         -
 *               6 starts?                                 shapes are those of q, k, v, o above
 *               o and lse are those over all keys, in 1 and 2 some of the keys (key_rank as above):
 *               dq is their share of it. Each output may be f32 or the storage type; o too
 * ATTENTION_ROWS 0 q[R,H*d], 1 k[N,G*d], 2 v[N,G*e]       0 o[R,H*e]                  -
 *               o as ATTENTION's, without dropout, of queries at the positions row0 .. row0 + R - 1 of one
 *               sample over keys and values at its positions 0 .. N - 1, which were kept (N >= row0 + R)
 * ACT           0 x[T,F]                                  0 y[T,F]                    0: in 0
 *               attr.act: GELU with tanh, GELU with erf
 * ACT_DX        0 dy[T,F], 1 x[T,F]                       0 dx[T,F]                   0: in 0 or 1
 * SWIGLU        0 x[T,2F] = gate | up, 1 bounds?          0 y[T,F] = act(gate) * up   -
 *               act: attr.gate, silu or GELU with tanh
 * SWIGLU_DX     0 dy[T,F], 1 x[T,2F], 2 bounds?           0 dx[T,2F]                  0: in 1
 *               bounds[1,S+1] i32: rows from the last bound on are neither read nor written
 * ADD           0 a, 1 b                                  0 y = a + b                 0: in 0 or 1
 * SCALE         0 x                                       0 y = attr.scale x          0: in 0
 * GATE          0 x[T,F], 1 z[T,1] f32                    0 y = sigmoid(z) x, z of the row 0: in 0
 * GATE_DX       0 dy[T,F], 1 x[T,F], 2 z[T,1] f32         0 dx[T,F]?, 1 dz[T,1]?      0: in 0 or 1
 *               dz: the sum over the row's columns of dy x, in double, times sigmoid'(z)
 * DROPOUT       0 x[T,D], 1 g?                            0 y = mask(x)/(1-drop) (+g) 0: in 0 or 1
 *               its own gradient: the mask is a function of (seed, step, site, sample, element)
 * JITTER        0 x[T,D], 1 g?                            0 y = x f (+g), f of each element 0: in 0 or 1
 *               uniform in [1 - jitter, 1 + jitter); its own gradient: f is a function of (seed,
 *               step, site, sample, element), as DROPOUT's mask
 * PROMPT        0 x[T,D], 1 W[D,K], 2 f[N L R,K] f32?     0 y[T,D]                    0: in 0
 *               y = x, but at position first + i, i < R = attr.prompt.rows, of sample n: W times row
 *               (n L + level) R + i of f, L = levels, a sum over K in fp32; without f column i of W (K >= R)
 * PROMPT_DX     0 dy[T,D]                                 0 dx[T,D]: dy, or 0 there   0: in 0
 * PROMPT_DW     0 dy[T,D], 1 f[N L R,K] f32?              0+ dW[D,K] f32              -
 *               of the rows of dy there, positions in turn, of each the samples in turn, in double
 * CROSS_ENTROPY 0 logits[R,V], 1 targets[R,1] i32         0 dlogits[R,V]?, 1 row_loss[R,1] f32
 *               row_loss = lse - logit[target]; dlogits = (softmax - onehot) * loss_scale /
 *               targets_in_step; adds the R losses in row order to scalars.loss_sum. out 0 absent:
 *               loss only.                                                           0: in 0
 *               Columns are words vocab_first .. of `vocab` words (0: of V); columns beyond the
 *               vocabulary are no words: their logits are not read, their dlogits are 0.
 *               in 2 parts[P*R,3] f32? (the CE_PART of every rank, rank after rank): the softmax is
 *               over all of them, row_loss that of the whole row on every rank
 *               vocab.cap > 0: cap tanh(z / cap) stands for each logit z, and dlogits are of z
 *               A row whose target is SN_NO_TARGET only fills the batch: loss 0, dlogits 0
 *               vocab.weight > 0: of another loss than the model's: dlogits are times it, and the losses,
 *               without it, are added to scalars.beside_sum in place of loss_sum
 *               out 2 row_z[R,1] f32 = lse^2? with attr z_loss, which adds z_loss lse^2 to a row's
 *               loss as dlogits has it: (softmax (1 + 2 z_loss lse) - onehot) ...; adds the R
 *               row_z in row order to scalars.head_z_sum
 *               out 3 row_ahead[R,1] f32?: how many words of the columns have a greater logit than the
 *               target, or the same and a smaller number; all of them where the loss is NaN
 *               in 3 sets[R,1] i32? which set of data a row is of: its row_loss is added, in row order, to the
 *               set's of sn_set_losses(scalars), too, of vocab.sets sets
 * CE_PART       0 logits[R,V], 1 targets[R,1]             0 part[R,3] f32             -
 *               per row (max m, sum exp(logit - m), logit of the target or 0 when it is not among
 *               the columns), over the columns that are words; none: (-inf, 0, 0)
 * TRANSPOSE     0 x (blocks_a x blocks_b x n)             0 y (blocks_b x blocks_a x n) -
 *               y[b][a][:] = x[a][b][:]; both are read in row-major order of their views, whose
 *               rows are whole numbers of blocks of n elements or parts of one: n = elements /
 *               (blocks_a blocks_b), and n is a multiple or a divisor of both views' cols
 * ROUTE         0 logits[T,E] f32, 1 bias[1,E] f32?       0 w[T,k] f32, 1 choice[T,k] i32,
 *                                                         2 counts[1,E] f32, 3 p[T,k] f32?,
 *                                                         4 sequences[S,E] f32?, 5 own[T,k] i32? -
 *               choice: the experts of the k largest logits (with a bias: of softmax_e + bias_e, the
 *               softmax over all E), largest first, of equal ones the lower number; w: the softmax
 *               of their logits among themselves, with of_all among all E; counts[e]: how often e is in choice.
 *               sigmoid: scores s = sigmoid(logit) in place of softmax_e; w: s over the sum of those
 *               chosen, with of_all s itself. groups > 1: the choice is among the top_groups groups of
 *               E / groups experts whose largest score (sigmoid: sum of the two largest) is most, bias
 *               included. route_scale > 0: w is times it
 *               own: the choice without the bias. sequences[s][e]: how often e is in own (without own in
 *               choice) among rows of sample s of the micro-batch (position.h), of all its samples
 *               sparsemixer (mixer.h; no bias): each choice in turn is of the softmax of what is near
 *               the largest logit that is left, the largest or, where it draws, drawn; p: its
 *               probability, w: p, of some that are drawn a third of it
 *               dense: w[T,E] is the softmax of all logits, there is no choice, counts its sums
 * ROUTE_DX      0 dw[T,k] f32, 1 logits, 2 choice,        0 dlogits[T,E]              -
 *               3 counts[1,E] f32?, by_sequence [S,E]
 *               the gradient of w (sparsemixer: of p, by dw), plus, with counts, those of the losses
 *               (dense: no choice; in aux's place, with P_e = counts[e] / sum counts, a function of
 *               the logits too, aux_loss mean sum_e softmax_e (log P_e - log softmax_e))
 *                 aux_loss sum_e E f_e P_e,  f_e = counts[e] / sum counts,  P_e = mean softmax_e
 *                     (sigmoid: of s_e over the sum of all; by_sequence: f of the row's sample)
 *                 z_loss mean lse^2,         lse = log sum_e exp(logit_e)
 *               whose means are over scalars.tokens_in_step; times loss_scale. f is a constant
 * ROUTE_LOSS    0 logits[T,E] f32, 1 counts[1,E] f32      -     adds the sums over its rows of
 *               sum_e E f_e softmax_e (as ROUTE_DX's) and of lse^2 to scalars.balance_sum and .z_sum; dense: of
 *               sum_e softmax_e (log P_e - log softmax_e), minus the information of a token's experts
 * MOE_PERMUTE   0 choice[T,k] i32, 1 all[C N,k] i32?      0 place[T,k] i32, 1 bounds[1,E+1] i32 -
 *               rows of a matrix in which each expert's are together, in the order of experts, each
 *               expert's in the order of tokens: place[t,j] is that of token t for expert
 *               choice[t,j], bounds[e] .. bounds[e+1] - 1 are expert e's. capacity > 0: of each seq
 *               rows (whole sequences) so many may go to an expert, first choices before second
 *               ones, each in the order of positions; the others have place -1. Where sequences are cut, `all`
 *               has the choices of all C context ranks, N rows each, one rank after the other; rows here
 *               are those of context_rank from row0 on. Absent: all are here
 *               dense: no choice; every token goes to `experts` experts, from member x experts on:
 *               place[t,e] is t + T times e's number among them, or -1
 * RECV_OFFSETS  0 bounds[M,M E+1] i32                     0 arrivals[1,M E+1] i32     -
 *               bounds of M senders over M x E experts, E (`experts`) of each receiver: the list that
 *               receiver `member` gets is sender 0's rows for its experts, expert after expert,
 *               then sender 1's ...; where each of these M E segments begins in the window of
 *               `capacity` rows from round x capacity on, cut to the window; the last is the end.
 *               chunks C > 1: of the n rows that each sender has for the receiver the list has
 *               n c / C .. n (c + 1) / C - 1, c = `chunk`
 * DISPATCH      0 x[T,D], 1 place[T,k] i32, 2 w[T,k] f32? 0 y[N,D]                    -
 *               y[place[t,j]] = x[t] (times w[t,j]); other rows of y are left alone
 * COMBINE       0 x[N,D], 1 place[T,k] i32, 2 w[T,k] f32?, 0 y[T,D] (+ addend g)      0: in 3
 *               3 g[T,D]?
 *               y[t] = sum over j of x[place[t,j]] (times w[t,j]); place -1 adds nothing
 * COMBINE_DW    0 dy[T,D], 1 x[N,D], 2 place[T,k] i32     0 dw[T,k] f32               -
 *               dw[t,j] = dy[t] . x[place[t,j]], or 0
 * EXPERT_GEMM   0 A, 1 B, 2 bounds[1,S+1] i32             0+ C                        -
 *               products of segments: segment s is rows bounds[s] .. bounds[s+1] - 1 of the tokens'
 *               matrices and belongs to expert s mod `experts`, whose matrix is one of `experts`
 *               equal blocks of rows of the weights
 *                 trans_b   C[N,n] = A[N,k] W_e^T    B = W[experts n, k]
 *                 neither   C[N,k] = A[N,n] W_e      B = W[experts n, k]
 *                 trans_a   W_e[n,k] (+)= A_s^T B_s  A[N,n], B[N,k], C = W[experts n, k]; of
 *                           several segments the sum, of none zero
 *               rows from the last bound on are neither read nor written; rows: how many there are
 *               on average (0: all), for those who price
 * SQ_NORM       0 g[1,N] f32                              -     adds to scalars.sq_norm, .nonfinite
 *               in double, over blocks of 65,536 elements in order (independent of threads)
 * CLIP_SCALE    -                                         -     scalars only: from sq_norm and
 *               nonfinite sets ok, grad_norm, grad_scale, loss_scale, scale_age, skipped, adam_count
 * ADAMW         0 g[1,N] f32                              0 p[1,N] f32 master, 1 m, 2 v (read and
 *               written), 3 w[1,N] storage copy?    no-op when scalars.ok is 0
 *               g' = g * grad_scale; m = b1 m + (1-b1) g'; v = b2 v + (1-b2) g'^2;
 *               p -= lr (mhat / (sqrt(vhat) + eps) + decay p), bias-corrected with adam_count
 *               (Loshchilov & Hutter, decoupled weight decay)
 * LION          0 g[1,N] f32                              0 p[1,N] f32 master, 1 m (read and
 *               written), 3 w[1,N] storage copy?    no-op when scalars.ok is 0
 *               g' = g * grad_scale; p -= lr (sign(b1 m + (1-b1) g') + decay p), sign(0) = 0; then
 *               m = b2 m + (1-b2) g' (Chen et al., arXiv 2302.06675, algorithm 2)
 * SGD           0 g[1,N] f32                              0 p[1,N] f32 master, 1 m (read and
 *               written), 3 w[1,N] storage copy?    no-op when scalars.ok is 0
 *               g' = g * grad_scale; m = momentum m + g'; p -= lr (m + decay p): the sum of
 *               torch.optim.SGD, the decay decoupled (Loshchilov & Hutter, algorithm 1)
 * AVERAGE       0 p[1,N] f32                              0 e[1,N] f32 (read and written)
 *               no-op when scalars.ok is 0; e += (1 - beta1) (p - e), and e = p of the first update
 *               (adam_count 1), in fp32 with (float)(1 - beta1)
 * PRUNE         0 p[1,N] f32                              0 g[1,N] (read and written)
 *               g = 0 where p is 0 (train.sparse), whatever it was
 * ROUTER_BIAS   0 counts[L,E] f32                         0 b[L,E] f32 (read and written) -
 *               b[l,e] += rate sign(mean of counts[l] - counts[l,e]); nothing where they are equal;
 *               no-op when scalars.ok is 0
 *
 * ENCODE        0 x[R,C], 1 y[R,C]?                       0 s[B,b] u8, 1 e[R,C] f32?  -
 *               streams of attr.stream.codec[scalars.codec_level[coded]]: B = blocks_a of them, stream i of
 *               the values i share .. (i + 1) share - 1 of x, which has no gaps; the last ones may
 *               have fewer or none, as if the last `missing` values did not exist. A stream begins at i sn_coded_bytes(), the rest of which is 0.
 *               With y: of the differences x - y, in fp32. With e (read and written): error feedback
 *               (codec.h): of x + e, and e becomes what is lost. blocks_b = K > 1: stream i is of
 *               share number (i % K) (B / K) + i / K. Where scalars.codec_sample is not 0: adds to
 *               scalars.codec_error[coded] the squares of what was lost, and of what was encoded
 * DECODE        0 s[B,b] u8, 1 w[R,C]?, 2 bounds[1,S+1] i32? 0+ y[R,C]                0: in 1
 *               of the same codec, what ENCODE wrote of values of attr.stream.type: share after share;
 *               inverse: y is one share, the sum over all B streams, in their order, in fp32, rounded
 *               once; with blocks_b = K > 1 K shares, share k the sum over streams k, K + k, 2 K + k,
 *               .. in that order. Not inverse: blocks_b as ENCODE's. marked: the values of a stream of
 *               length 0 are left alone. Plus w. SN_ADD needs y in f32. bounds: streams from the last bound on are
 *               neither read, nor their values written. Fails with what enum sn_codec_fault says
 *
 * ORTHOGONALISE 0 x[R,C] f32                              0 y[R,C] f32, 1 n[R,C] f32? 0: in 0
 *               y: orthonormal columns that span those of x, each made of the columns up to its own
 *               (Gram-Schmidt, every column twice); n = -y. A column of which the ones before it
 *               leave less than 2^-20, or nothing, is 0 in y; with `draws` one is drawn in its place
 *               and made orthogonal likewise, a function of (seed, step, site, element), while there
 *               are more rows than columns before it. Where x is not finite all of y is NaN. The
 *               same bits from every instruction set
 *
 * "?" may be absent (p == NULL). Vectors are one row.
 */
/* clang-format on */
#ifndef SN_OPS_H
#define SN_OPS_H

#include "kernels/attr.h"
#include "kernels/scalars.h"
#include "kernels/tensor.h"

#include <stdbool.h>

/* Every kind and its name. Backends list their kernels by it, so that none of them has an order of
 * its own. Further kinds (communication) belong to lib/program. */
/* clang-format off */
/* Optimizers: what lib/config/optimizer.h has rows of. */
#define SN_UPDATE_KINDS(X) X(ADAMW, adamw) X(LION, lion) X(SGD, sgd)

#define SN_OP_KINDS(X)                                                                             \
    X(ZERO, zero) X(COPY, copy) X(EMBED, embed) X(EMBED_GRAD, embed_grad) X(POS_GRAD, pos_grad)    \
    X(LAYERNORM, layernorm) X(LAYERNORM_DX, layernorm_dx) X(LAYERNORM_DW, layernorm_dw)            \
    X(RMSNORM, rmsnorm) X(RMSNORM_DX, rmsnorm_dx) X(RMSNORM_DW, rmsnorm_dw)                       \
    X(NORM_PART, norm_part) X(NORM_DX_PART, norm_dx_part) X(HEAD_NORM, head_norm)                  \
    X(HEAD_NORM_DX, head_norm_dx) X(HEAD_NORM_DW, head_norm_dw) X(GEMM, gemm)                      \
    X(COLSUM, colsum) X(ROPE, rope) X(MLA_JOIN, mla_join) X(MLA_JOIN_DX, mla_join_dx)              \
    X(ATTENTION, attention) X(ATTENTION_DX, attention_dx) X(ATTENTION_ROWS, attention_rows)        \
    X(ACT, act) X(ACT_DX, act_dx) X(SWIGLU, swiglu) X(SWIGLU_DX, swiglu_dx) X(ADD, add)            \
    X(SCALE, scale) X(GATE, gate) X(GATE_DX, gate_dx) X(DROPOUT, dropout) X(JITTER, jitter)        \
    X(PROMPT, prompt) X(PROMPT_DX, prompt_dx) X(PROMPT_DW, prompt_dw)                              \
    X(CROSS_ENTROPY, cross_entropy) X(CE_PART, ce_part)                                            \
    X(TRANSPOSE, transpose) X(ROUTE, route) X(ROUTE_DX, route_dx) X(ROUTE_LOSS, route_loss)        \
    X(MOE_PERMUTE, moe_permute) X(RECV_OFFSETS, recv_offsets) X(DISPATCH, dispatch)                \
    X(COMBINE, combine) X(COMBINE_DW, combine_dw) X(EXPERT_GEMM, expert_gemm)                      \
    X(SQ_NORM, sq_norm) X(CLIP_SCALE, clip_scale) SN_UPDATE_KINDS(X) X(AVERAGE, average)           \
    X(PRUNE, prune) X(ROUTER_BIAS, router_bias)                                                    \
    X(ENCODE, encode) X(DECODE, decode) X(ORTHOGONALISE, orthogonalise)
/* clang-format on */

#define SN_OP_KIND_OF(KIND, name) SN_OP_##KIND,
enum sn_op_kind { SN_OP_KINDS(SN_OP_KIND_OF) SN_NKERNELS };
#undef SN_OP_KIND_OF

enum sn_acc { SN_WRITE, SN_ADD };

/* Positions of operands, in the order of the table above: inputs, then outputs. */
/* clang-format off */
enum { SN_ZERO_X };
enum { SN_COPY_X, SN_COPY_Y = 0 };
enum { SN_EMBED_IDS, SN_EMBED_W, SN_EMBED_P, SN_EMBED_Y = 0 };
enum { SN_EMBED_GRAD_IDS, SN_EMBED_GRAD_DY, SN_EMBED_GRAD_DW = 0 };
enum { SN_POS_GRAD_DY, SN_POS_GRAD_DP = 0 };
/* LAYERNORM, RMSNORM and HEAD_NORM */
enum {
    SN_NORM_X, SN_NORM_W, SN_NORM_B, SN_NORM_ADDEND, SN_NORM_PARTS,
    SN_NORM_Y = 0, SN_NORM_STATS, SN_NORM_SUM
};
enum {
    SN_NORM_DX_DY, SN_NORM_DX_X, SN_NORM_DX_W, SN_NORM_DX_STATS, SN_NORM_DX_ADDEND, SN_NORM_DX_PARTS,
    SN_NORM_DX_DX = 0, SN_NORM_DX_DW, SN_NORM_DX_DB
};
enum { SN_NORM_DW_DY, SN_NORM_DW_X, SN_NORM_DW_STATS, SN_NORM_DW_DW = 0, SN_NORM_DW_DB };
enum { SN_NORM_PART_X, SN_NORM_PART_PART = 0 };
enum { /* the first four are those of a norm's gradient */
    SN_NORM_DX_PART_DY, SN_NORM_DX_PART_X, SN_NORM_DX_PART_W, SN_NORM_DX_PART_STATS,
    SN_NORM_DX_PART_PART = 0
};
/* SLOPE_OF: what ACT_DX takes the slope of; BESIDE: x of ACT, or db of COLSUM */
enum {
    SN_GEMM_A, SN_GEMM_B, SN_GEMM_BIAS, SN_GEMM_ADDEND, SN_GEMM_SLOPE_OF,
    SN_GEMM_C = 0, SN_GEMM_BESIDE
};
enum { SN_COLSUM_DY, SN_COLSUM_DB = 0 };
enum { SN_ROPE_X, SN_ROPE_Y = 0 };
enum { SN_MLA_JOIN_Q, SN_MLA_JOIN_KV, SN_MLA_JOIN_R, SN_MLA_JOIN_Y = 0 };
enum { SN_MLA_JOIN_DX_DY, SN_MLA_JOIN_DX_DQ = 0, SN_MLA_JOIN_DX_DKV, SN_MLA_JOIN_DX_DR };
enum {
    SN_ATTENTION_Q, SN_ATTENTION_K, SN_ATTENTION_V, SN_ATTENTION_STARTS,
    SN_ATTENTION_O = 0, SN_ATTENTION_LSE
};
enum {
    SN_ATTENTION_DX_Q, SN_ATTENTION_DX_K, SN_ATTENTION_DX_V, SN_ATTENTION_DX_O, SN_ATTENTION_DX_DO, SN_ATTENTION_DX_LSE, SN_ATTENTION_DX_STARTS,
    SN_ATTENTION_DX_DQ = 0, SN_ATTENTION_DX_DK, SN_ATTENTION_DX_DV
};
enum { SN_ATTENTION_ROWS_Q, SN_ATTENTION_ROWS_K, SN_ATTENTION_ROWS_V, SN_ATTENTION_ROWS_O = 0 };
enum { SN_ACT_X, SN_ACT_Y = 0 };
enum { SN_SCALE_X, SN_SCALE_Y = 0 };
enum { SN_GATE_X, SN_GATE_Z, SN_GATE_Y = 0 };
enum { SN_GATE_DX_DY, SN_GATE_DX_X, SN_GATE_DX_Z, SN_GATE_DX_DX = 0, SN_GATE_DX_DZ };
enum { SN_ACT_DX_DY, SN_ACT_DX_X, SN_ACT_DX_DX = 0 };
enum { SN_SWIGLU_X, SN_SWIGLU_BOUNDS, SN_SWIGLU_Y = 0 };
enum { SN_SWIGLU_DX_DY, SN_SWIGLU_DX_X, SN_SWIGLU_DX_BOUNDS, SN_SWIGLU_DX_DX = 0 };
enum { SN_ADD_A, SN_ADD_B, SN_ADD_Y = 0 };
/* DROPOUT and JITTER */
enum { SN_NOISE_X, SN_NOISE_ADDEND, SN_NOISE_Y = 0 };
enum { SN_PROMPT_X, SN_PROMPT_W, SN_PROMPT_F, SN_PROMPT_Y = 0 };
enum { SN_PROMPT_DX_DY, SN_PROMPT_DX_DX = 0 };
enum { SN_PROMPT_DW_DY, SN_PROMPT_DW_F, SN_PROMPT_DW_DW = 0 };
enum {
    SN_CROSS_ENTROPY_LOGITS, SN_CROSS_ENTROPY_TARGETS, SN_CROSS_ENTROPY_PARTS, SN_CROSS_ENTROPY_SETS,
    SN_CROSS_ENTROPY_DLOGITS = 0, SN_CROSS_ENTROPY_ROW_LOSS, SN_CROSS_ENTROPY_ROW_Z,
    SN_CROSS_ENTROPY_ROW_AHEAD
};
enum { SN_CE_PART_LOGITS, SN_CE_PART_TARGETS, SN_CE_PART_PART = 0 };
enum { SN_TRANSPOSE_X, SN_TRANSPOSE_Y = 0 };
enum {
    SN_ROUTE_LOGITS, SN_ROUTE_BIAS,
    SN_ROUTE_W = 0, SN_ROUTE_CHOICE, SN_ROUTE_COUNTS, SN_ROUTE_P, SN_ROUTE_SEQUENCES, SN_ROUTE_OWN
};
enum {
    SN_ROUTE_DX_DW, SN_ROUTE_DX_LOGITS, SN_ROUTE_DX_CHOICE, SN_ROUTE_DX_COUNTS,
    SN_ROUTE_DX_DLOGITS = 0
};
enum { SN_ROUTE_LOSS_LOGITS, SN_ROUTE_LOSS_COUNTS };
enum { SN_MOE_PERMUTE_CHOICE, SN_MOE_PERMUTE_ALL, SN_MOE_PERMUTE_PLACE = 0, SN_MOE_PERMUTE_BOUNDS };
enum { SN_RECV_OFFSETS_BOUNDS, SN_RECV_OFFSETS_ARRIVALS = 0 };
enum { SN_DISPATCH_X, SN_DISPATCH_PLACE, SN_DISPATCH_W, SN_DISPATCH_Y = 0 };
enum { SN_COMBINE_X, SN_COMBINE_PLACE, SN_COMBINE_W, SN_COMBINE_ADDEND, SN_COMBINE_Y = 0 };
enum { SN_COMBINE_DW_DY, SN_COMBINE_DW_X, SN_COMBINE_DW_PLACE, SN_COMBINE_DW_DW = 0 };
enum { SN_EXPERT_GEMM_A, SN_EXPERT_GEMM_B, SN_EXPERT_GEMM_BOUNDS, SN_EXPERT_GEMM_C = 0 };
enum { SN_SQ_NORM_G };
enum { SN_UPDATE_G, SN_UPDATE_P = 0, SN_UPDATE_M, SN_UPDATE_V, SN_UPDATE_W }; /* of optimizers */
enum { SN_AVERAGE_P, SN_AVERAGE_E = 0 };
enum { SN_PRUNE_P, SN_PRUNE_G = 0 };
enum { SN_ROUTER_BIAS_COUNTS, SN_ROUTER_BIAS_BIAS = 0 };
enum { SN_ENCODE_X, SN_ENCODE_MINUS, SN_ENCODE_STREAMS = 0, SN_ENCODE_LOST };
enum { SN_DECODE_STREAMS, SN_DECODE_ADDEND, SN_DECODE_BOUNDS, SN_DECODE_Y = 0 };
enum { SN_ORTHOGONALISE_X, SN_ORTHOGONALISE_Y = 0, SN_ORTHOGONALISE_MINUS };
/* clang-format on */

enum { SN_MAX_IN = 7, SN_MAX_OUT = 6 };
enum { SN_NO_TARGET = -1 }; /* what a row of CROSS_ENTROPY has to predict: nothing */

struct sn_args {
    struct sn_mat in[SN_MAX_IN];
    struct sn_mat out[SN_MAX_OUT];
    enum sn_acc acc[SN_MAX_OUT];
    struct sn_attr attr;
    struct sn_scalars *scalars;
    void *scratch; /* at least what ->scratch() asked for, 64-byte aligned */
};

/* How many rows of the output head's logits exist at once. The gradient of the head's weights is
 * read and written once for each such block: blocks are large where memory is far and products want
 * many rows, small where a cache should hold them. */
struct sn_head_rows {
    int64_t bytes;    /* of a block's logits, at most */
    int64_t least;    /* rows of a block, even if they have more bytes */
    int64_t multiple; /* rows of a block are a multiple of it, but for the last or only one */
};

/* A backend. `threads` is the number that the plan gives to each rank. */
struct sn_ops {
    const char *name; /* "cpu/avx512", "cuda/sm_90" */
    /* Run one operation; 0, or a non-zero number when the library below failed. */
    int (*run[SN_NKERNELS])(const struct sn_args *a, int threads);
    /* Bytes of scratch that `run[kind]` needs for operands of these shapes (pointers unread). */
    size_t (*scratch)(enum sn_op_kind kind, const struct sn_args *a, int threads);
    struct sn_head_rows head; /* whoever compiles a program for this backend asks */
    /* A residual is added as the addend of the product before it, where there is one, and not by an
     * ADD of its own: rounded once, not twice. */
    bool adds_in_products;
    /* Is GEMM with its epilogue, of operands of these shapes (pointers unread), one pass over
     * memory fewer than both apart? Then the compiler makes them one (lib/program/fuse.c). NULL:
     * never. */
    bool (*fuses)(const struct sn_args *a);
    /* Are products of matrices of this type multiplied as they are stored, and summed in fp32? Else
     * they are widened to fp32 first. NULL: never, or nobody asks. */
    bool (*multiplies)(enum sn_dtype t);
};

/* The CPU backend for the best instruction set of this processor, or for the one that SN_ISA in the
 * environment names; never NULL. */
const struct sn_ops *sn_ops_cpu(void);
/* Does this processor have the set that SN_ISA names? If not, *why says so, and which it has. */
bool sn_ops_cpu_check(char *why, size_t size);
/* One line for run headers and benchmark records: instruction set, whose products. A
 * sentence of warning is in *warning when the environment holds BLAS back, NULL otherwise. */
const char *sn_ops_cpu_describe(const char **warning);
/* The rest of that line for a run that keeps tensors of this type: how they are computed with;
 * nothing for fp32. Written into text, which is returned. */
enum { SN_OPS_TEXT = 64 };
const char *sn_ops_arithmetic(const struct sn_ops *ops, enum sn_dtype t, char text[SN_OPS_TEXT]);

#endif
