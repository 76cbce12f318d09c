-- One row: FLOPs that the model of run.toml needs for a token, and what to write where they do not follow.
--
-- token_flops       DOUBLE   By torchtitan's convention: 6 (N - embeddings) + 6 L H (d_qk + d_v) S; NULL with reasons.
-- plain_token_flops DOUBLE   6 N, N the parameters that a token passes through; NULL with reasons.
-- seq_len           BIGINT   Positions of a sequence; NULL unknown.
-- convention        VARCHAR  How token_flops were counted, with the numbers; NULL as they are.
-- reasons           VARCHAR[]  Why there are no token_flops; empty where there are.
--
-- Scope: mfu
-- How: a published model's name gives the sizes that run.toml leaves out. The output layer is a matrix product, the look-up
-- in the embedding is none: where they are one table it stays in.
WITH spelt AS (
    SELECT DISTINCT
        * EXCLUDE (aliases),
        regexp_replace(lower(unnest(list_append(string_split(aliases, '|'), model))), '[^a-z0-9]', '', 'g') AS spelling
    FROM models
),

told AS (
    SELECT
        *,
        regexp_replace(lower(model_name), '[^a-z0-9]', '', 'g') AS spelling
    FROM run_config
),

nearest AS (
    SELECT arg_min(spelt.model, (levenshtein(spelt.spelling, told.spelling), spelt.model)) AS model
    FROM told
    CROSS JOIN spelt
    WHERE told.spelling IS NOT NULL
),

filled AS (
    SELECT
        told.model_name,
        spelt.model IS NOT NULL AS is_known,
        coalesce(told.model_params, spelt.params::BIGINT)::DOUBLE AS params,
        coalesce(told.model_experts, spelt.experts::BIGINT, 1) AS experts,
        CASE WHEN told.model_params IS NULL THEN spelt.active_params::BIGINT END AS known_active_params,
        told.model_active_params,
        told.model_embedding_params,
        coalesce(told.model_layers, spelt.layers::BIGINT)::DOUBLE AS layers,
        coalesce(told.model_hidden, spelt.hidden::BIGINT)::DOUBLE AS hidden,
        coalesce(told.model_heads, spelt.heads::BIGINT)::DOUBLE AS heads,
        coalesce(told.model_vocab, spelt.vocab::BIGINT)::DOUBLE AS vocab,
        told.model_head_dim,
        spelt.head_dim::BIGINT AS known_head_dim,
        told.model_d_qk,
        told.model_d_v,
        coalesce(told.model_seq_len, spelt.seq_len::BIGINT) AS seq_len,
        coalesce(told.model_tied, spelt.tied = 'yes', FALSE) AS is_tied
    FROM told
    LEFT JOIN spelt ON told.spelling = spelt.spelling
),

sized AS (
    SELECT
        *,
        coalesce(
            model_active_params::DOUBLE, known_active_params::DOUBLE, CASE WHEN experts = 1 THEN params END
        ) AS active_params,
        coalesce(model_embedding_params::DOUBLE, vocab * hidden) AS embedding_params,
        coalesce(model_head_dim::DOUBLE, known_head_dim::DOUBLE, hidden / heads) AS head_dim
    FROM filled
),

widths AS (
    SELECT
        *,
        coalesce(model_d_qk::DOUBLE, head_dim) + coalesce(model_d_v::DOUBLE, head_dim) AS head_width
    FROM sized
),

wanted AS (
    SELECT
        *,
        list_filter(
            [
                CASE
                    WHEN active_params IS NULL THEN CASE WHEN experts > 1 THEN 'active_params' ELSE 'params' END
                END,
                CASE WHEN embedding_params IS NULL AND NOT is_tied THEN 'embedding_params' END,
                CASE WHEN layers IS NULL THEN 'layers' END,
                CASE WHEN heads IS NULL THEN 'heads' END,
                CASE WHEN head_width IS NULL THEN 'head_dim' END,
                CASE WHEN seq_len IS NULL THEN 'seq_len' END
            ],
            lambda key: key IS NOT NULL
        ) AS lacking
    FROM widths
)

SELECT
    CASE
        WHEN len(lacking) = 0
            THEN 6 * (active_params - CASE WHEN is_tied THEN 0 ELSE embedding_params END) + 6 * layers * heads * head_width * seq_len
    END AS token_flops,
    6 * active_params AS plain_token_flops,
    seq_len,
    CASE
        WHEN len(lacking) = 0 THEN
            format(
                '6 x ({:.0f} parameters{}) + 6 x {:.0f} layers x {:.0f} heads x {:.0f} x {} positions, attention not halved',
                active_params,
                CASE WHEN is_tied THEN ', embedding tied' ELSE format(' - {:.0f} of the embedding', embedding_params) END,
                layers,
                heads,
                head_width,
                seq_len
            )
    END AS convention,
    CASE
        WHEN len(lacking) > 0 THEN
            [
                CASE
                    WHEN model_name IS NULL OR is_known THEN ''
                    ELSE format('model {} is not a published one known here (nearest: {}): ', model_name, nearest.model)
                END || 'run.toml lacks [model] ' || array_to_string(lacking, ', ')
            ]
        ELSE []::VARCHAR[]
    END AS reasons
FROM wanted
CROSS JOIN nearest
