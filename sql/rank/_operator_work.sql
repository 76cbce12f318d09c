-- One row per name and inputs of operators that a formula knows: FLOPs and bytes of one call.
--
-- name          VARCHAR  Operator.
-- inputs        VARCHAR  What it was called with, as events have it.
-- kernel_class  VARCHAR  gemm, attention, convolution or other.
-- is_forward    BOOLEAN  Whether it is work of the forward pass, which backward does only to compute it anew.
-- dtype         VARCHAR  Element type that it multiplies: bf16, fp16, fp8, fp32, fp64; NULL of class other, or unknown.
-- flops         BIGINT   FLOPs, a multiply and an add counting as two; NULL of class other, or where shapes do not say.
-- n_bytes       BIGINT   Bytes of all inputs and outputs, each once; NULL where a type or a size is unknown.
--
-- Scope: rank
-- How: the formulas are those of torch.utils.flop_counter. Attention is not halved for a causal mask; its backward counts
-- the scores that it computes once more. Of a grouped convolution each gradient costs what forward does. Pointwise operators write
-- as much as the largest input; reductions and what gets its outputs as arguments count the arguments alone. A size that
-- does not fit the other (a product's inner ones) gives NULL, as does what no device could do in a step: 10^18.
WITH called AS (
    SELECT DISTINCT
        name,
        inputs
    FROM events
    WHERE inputs IS NOT NULL AND duration_ns > 0
),

known AS (
    SELECT
        names.name,
        arg_min(formulas.formula, formulas.place) AS formula,
        arg_min(formulas.class, formulas.place) AS kernel_class,
        arg_min(formulas.n_arguments::BIGINT, formulas.place) AS n_arguments
    FROM (SELECT DISTINCT name FROM called) AS names
    JOIN (SELECT *, row_number() OVER () AS place FROM operator_formulas) AS formulas
        ON regexp_matches(names.name, formulas.pattern)
    GROUP BY names.name
),

parsed AS (
    SELECT
        called.name,
        called.inputs,
        known.formula,
        known.kernel_class,
        known.n_arguments,
        TRY_CAST(split_part(called.inputs, '|', 1) AS DOUBLE[][]) AS sizes,
        string_split(split_part(called.inputs, '|', 2), ';') AS types,
        string_split(split_part(called.inputs, '|', 3), ';') AS texts
    FROM called
    JOIN known ON called.name = known.name
),

arguments AS (
    SELECT
        name,
        inputs,
        unnest(sizes) AS size,
        regexp_replace(lower(unnest(types)), '^c10::', '') AS type
    FROM parsed
),

weighed AS (
    SELECT
        arguments.name,
        arguments.inputs,
        sum(list_product(arguments.size) * dtype_bytes.n_bytes::BIGINT) AS in_bytes,
        bool_and(list_count(arguments.size) = len(arguments.size) AND dtype_bytes.dtype IS NOT NULL) AS is_weighed,
        max(list_product(arguments.size)) AS largest,
        arg_max(dtype_bytes.n_bytes::BIGINT, list_product(arguments.size)) AS largest_width
    FROM arguments
    LEFT JOIN dtype_bytes ON arguments.type = dtype_bytes.dtype
    WHERE len(arguments.size) > 0
    GROUP BY arguments.name, arguments.inputs
),

operands AS (
    SELECT
        *,
        (formula IN ('addmm', 'baddbmm') OR ends_with(formula, '_backward'))::BIGINT AS n_before,
        sizes[1 + n_before] AS a,
        sizes[2 + n_before] AS b,
        sizes[3 + n_before] AS c,
        regexp_replace(lower(types[1 + n_before]), '^c10::', '') AS type,
        CASE
            WHEN formula = 'convolution' THEN texts[7] = 'True'
            WHEN formula = 'convolution_backward' THEN texts[8] = 'True'
        END AS is_transposed,
        TRY_CAST(texts[4] AS DOUBLE[]) AS strides,
        TRY_CAST(texts[5] AS DOUBLE[]) AS paddings,
        TRY_CAST(texts[6] AS DOUBLE[]) AS dilations,
        CASE WHEN formula = 'convolution_backward' THEN string_split(texts[11], ',') END AS wanted,
        CASE formula WHEN 'scaled_mm' THEN texts[7] WHEN 'scaled_grouped_mm' THEN texts[8] END AS out_code
    FROM parsed
),

convolved AS (
    SELECT
        *,
        contains(wanted[1], 'True')::BIGINT AS wants_input,
        contains(wanted[2], 'True')::BIGINT AS wants_weight,
        CASE
            WHEN formula = 'convolution' AND NOT is_transposed AND len(a) = len(b) AND len(a) > 2 THEN
                list_product(list_transform(
                    range(1, len(a)::BIGINT - 1),
                    lambda i: floor(
                        (
                            a[i + 2]
                            + 2 * coalesce(paddings[i], paddings[1])
                            - coalesce(dilations[i], dilations[1]) * (b[i + 2] - 1)
                            - 1
                        ) / coalesce(strides[i], strides[1])
                    ) + 1
                ))
            WHEN formula = 'convolution' AND is_transposed AND len(a) = len(b) THEN list_product(a[3:])
            WHEN formula = 'convolution_backward' AND len(a) = len(b) AND NOT is_transposed THEN list_product(sizes[1][3:])
            WHEN formula = 'convolution_backward' AND len(a) = len(b) AND is_transposed THEN list_product(a[3:])
        END AS places
    FROM operands
),

attended AS (
    SELECT
        *,
        a[1] * CASE WHEN starts_with(formula, 'attention_by_head') THEN a[2] ELSE a[3] END AS heads,
        CASE WHEN starts_with(formula, 'attention_by_head') THEN a[3] ELSE a[2] END
        * CASE WHEN starts_with(formula, 'attention_by_head') THEN b[3] ELSE b[2] END AS scores,
        starts_with(formula, 'attention') AND len(a) = 4 AND len(b) = 4 AND len(c) = 4 AND a[1] = b[1] AND a[4] = b[4] AS is_attention
    FROM convolved
),

counted AS (
    SELECT
        *,
        CASE
            WHEN formula IN ('mm', 'addmm', 'scaled_mm') AND len(a) = 2 AND len(b) = 2 AND a[2] = b[1]
                THEN 2.0 * a[1] * a[2] * b[2]
            WHEN formula IN ('bmm', 'baddbmm') AND len(a) = 3 AND len(b) = 3 AND a[1] = b[1] AND a[3] = b[2]
                THEN 2.0 * a[1] * a[2] * a[3] * b[3]
            WHEN formula = 'linear' AND len(b) = 2 AND a[-1] = b[2] THEN 2.0 * list_product(a) * b[1]
            WHEN formula = 'matmul' AND len(b) = 2 AND a[-1] = b[1] THEN 2.0 * list_product(a) * b[2]
            WHEN formula = 'matmul' AND len(a) >= 3 AND len(a) = len(b) AND a[:-3] = b[:-3] AND a[-1] = b[-2]
                THEN 2.0 * list_product(a) * b[-1]
            WHEN formula IN ('grouped_mm', 'scaled_grouped_mm') AND len(a) = 2 AND len(b) = 3 AND a[2] = b[2]
                THEN 2.0 * a[1] * a[2] * b[3]
            WHEN formula IN ('grouped_mm', 'scaled_grouped_mm') AND len(a) = 2 AND len(b) = 2 AND a[2] = b[1]
                THEN 2.0 * a[1] * a[2] * b[2]
            WHEN formula IN ('grouped_mm', 'scaled_grouped_mm') AND len(a) = 3 AND len(b) = 2 AND a[3] = b[1]
                THEN 2.0 * a[2] * a[3] * b[2]
            WHEN formula IN ('grouped_mm', 'scaled_grouped_mm') AND len(a) = 3 AND len(b) = 3 AND a[1] = b[1] AND a[3] = b[2]
                THEN 2.0 * a[1] * a[2] * a[3] * b[3]
            WHEN formula = 'convolution' THEN 2.0 * a[1] * places * list_product(b)
            WHEN formula = 'convolution_backward'
                THEN 2.0 * a[1] * places * list_product(b) * (wants_input + wants_weight)
            WHEN is_attention AND NOT ends_with(formula, '_backward') THEN 2.0 * heads * scores * (a[4] + c[4])
            WHEN is_attention THEN 2.0 * heads * scores * (3 * a[4] + 2 * c[4])
        END AS product_flops,
        CASE
            WHEN len(sizes) > n_arguments THEN 0
            WHEN formula IN ('mm', 'bmm', 'addmm', 'baddbmm', 'scaled_mm') THEN list_product(a) / a[-1] * b[-1]
            WHEN formula = 'linear' THEN list_product(a) / a[-1] * b[1]
            WHEN formula = 'matmul' THEN list_product(a) / a[-1] * b[-1]
            WHEN formula IN ('grouped_mm', 'scaled_grouped_mm') AND len(a) = 2 AND len(b) = 3 THEN a[1] * b[3]
            WHEN formula IN ('grouped_mm', 'scaled_grouped_mm') AND len(a) = 3 AND len(b) = 2 THEN a[2] * b[2]
            WHEN formula IN ('grouped_mm', 'scaled_grouped_mm') AND len(a) = 3 THEN a[1] * a[2] * b[3]
            WHEN formula = 'convolution' AND NOT is_transposed THEN a[1] * b[1] * places
            WHEN formula = 'convolution_backward'
                THEN wants_input * list_product(a) + wants_weight * list_product(b)
            WHEN is_attention AND NOT ends_with(formula, '_backward') THEN list_product(a) / a[4] * c[4]
            WHEN is_attention THEN list_product(a) + list_product(b) + list_product(c)
            WHEN formula = 'arguments' THEN 0
            WHEN formula = 'pointwise' THEN weighed.largest
        END AS out_elements,
        CASE
            WHEN len(sizes) > n_arguments OR formula = 'arguments' THEN 0
            WHEN formula IN ('scaled_mm', 'scaled_grouped_mm') THEN CASE WHEN out_code IN ('5', '15') THEN 2 WHEN out_code = '6' THEN 4 END
            WHEN formula = 'pointwise' THEN weighed.largest_width
            ELSE dtype_bytes.n_bytes::BIGINT
        END AS out_width,
        weighed.in_bytes,
        weighed.is_weighed
    FROM attended
    LEFT JOIN weighed ON attended.name = weighed.name AND attended.inputs = weighed.inputs
    LEFT JOIN dtype_bytes ON attended.type = dtype_bytes.dtype
)

SELECT
    name,
    inputs,
    kernel_class,
    kernel_class <> 'other' AND NOT ends_with(formula, '_backward') AS is_forward,
    CASE
        WHEN kernel_class = 'other' THEN NULL
        WHEN starts_with(type, 'float8') THEN 'fp8'
        ELSE
            CASE type
                WHEN 'bfloat16' THEN 'bf16'
                WHEN 'half' THEN 'fp16'
                WHEN 'float' THEN 'fp32'
                WHEN 'double' THEN 'fp64'
            END
    END AS dtype,
    CASE WHEN product_flops BETWEEN 1 AND params.largest_work THEN round(product_flops)::BIGINT END AS flops,
    CASE
        WHEN is_weighed
            AND (kernel_class = 'other' OR product_flops IS NOT NULL)
            AND in_bytes + out_elements * out_width BETWEEN 1 AND params.largest_work
            THEN round(in_bytes + out_elements * out_width)::BIGINT
    END AS n_bytes
FROM counted
CROSS JOIN params
