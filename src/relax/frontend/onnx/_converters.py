"""The ONNX operators, with their domains, by the module that converts them. Written by tools/make_homes.py."""

from __future__ import annotations

CONVERTERS = {
    ".activation": "Celu Elu Gelu HardSigmoid HardSwish Hardmax LeakyRelu LogSoftmax Mish PRelu Relu Selu Shrink Softmax "
        "Softplus Softsign Swish ThresholdedRelu com.microsoft/Gelu",
    ".attention": "com.microsoft/Attention com.microsoft/GroupQueryAttention com.microsoft/MultiHeadAttention "
        "com.microsoft/RotaryEmbedding",
    ".contrib": "com.microsoft/BiasAdd com.microsoft/BiasGelu com.microsoft/BiasSoftmax "
        "com.microsoft/DynamicQuantizeLSTM com.microsoft/EmbedLayerNormalization com.microsoft/FastGelu "
        "com.microsoft/FusedConv com.microsoft/FusedGemm com.microsoft/FusedMatMul com.microsoft/GemmFastGelu "
        "com.microsoft/QuickGelu com.microsoft/SkipLayerNormalization "
        "com.microsoft/SkipSimplifiedLayerNormalization com.microsoft/TransposeMatMul",
    ".control": "If Loop Scan",
    ".creation": "BlackmanWindow Constant ConstantOfShape EyeLike HammingWindow HannWindow Range",
    ".features": "ai.onnx.ml/ArrayFeatureExtractor ai.onnx.ml/Binarizer ai.onnx.ml/FeatureVectorizer "
        "ai.onnx.ml/Imputer ai.onnx.ml/LinearClassifier ai.onnx.ml/LinearRegressor ai.onnx.ml/Normalizer "
        "ai.onnx.ml/Scaler",
    ".few_bits": "com.microsoft/GatherBlockQuantized com.microsoft/MatMulNBits",
    ".image": "AffineGrid Col2Im DeformConv GridSample ImageDecoder MaxRoiPool NonMaxSuppression Resize RoiAlign "
        "Upsample",
    ".indexing": "Compress Gather GatherElements GatherND NonZero OneHot Scatter ScatterElements ScatterND TopK Unique",
    ".integer_products": "ConvInteger MatMulInteger",
    ".labels": "ai.onnx.ml/CastMap ai.onnx.ml/CategoryMapper ai.onnx.ml/DictVectorizer ai.onnx.ml/LabelEncoder "
        "ai.onnx.ml/OneHotEncoder ai.onnx.ml/ZipMap",
    ".legacy": "Affine ConstantFill Crop ImageScaler ParametricSoftplus Scale ScaledTanh",
    ".math": "Abs Acos Acosh Add And Asin Asinh Atan Atanh BitShift BitwiseAnd BitwiseNot BitwiseOr BitwiseXor "
        "Ceil Clip Cos Cosh Det Div Einsum Equal Erf Exp Floor Gemm Greater GreaterOrEqual Identity IsInf "
        "IsNaN Less LessOrEqual Log MatMul Max Mean Min Mod Mul Neg Not Or Pow Reciprocal Round Sigmoid Sign "
        "Sin Sinh Sqrt Sub Sum Tan Tanh Xor",
    ".nn": "AveragePool BatchNormalization Conv ConvTranspose GlobalAveragePool GlobalLpPool GlobalMaxPool "
        "GroupNormalization InstanceNormalization LRN LayerNormalization LpNormalization LpPool MaxPool "
        "MaxUnpool Pad RMSNormalization SimplifiedLayerNormalization "
        "com.microsoft/SimplifiedLayerNormalization",
    ".quantize": "DequantizeLinear DynamicQuantizeLinear QLinearConv QLinearMatMul QuantizeLinear "
        "com.microsoft/DequantizeLinear com.microsoft/DynamicQuantizeMatMul "
        "com.microsoft/MatMulIntegerToFloat com.microsoft/QGemm com.microsoft/QLinearAdd "
        "com.microsoft/QLinearGlobalAveragePool com.microsoft/QLinearLeakyRelu com.microsoft/QLinearMul "
        "com.microsoft/QLinearSigmoid com.microsoft/QLinearSoftmax com.microsoft/QuantizeLinear",
    ".random": "Bernoulli Dropout Multinomial RandomNormal RandomNormalLike RandomUniform RandomUniformLike",
    ".recurrent": "GRU LSTM RNN",
    ".reduce": "ArgMax ArgMin CumProd CumSum ReduceL1 ReduceL2 ReduceLogSum ReduceLogSumExp ReduceMax ReduceMean "
        "ReduceMin ReduceProd ReduceSum ReduceSumSquare",
    ".sequence": "ConcatFromSequence Identity Optional OptionalGetElement OptionalHasElement SequenceAt "
        "SequenceConstruct SequenceEmpty SequenceErase SequenceInsert SequenceLength SequenceMap "
        "SplitToSequence",
    ".shape": "Expand Flatten Reshape Shape Size Squeeze Tile Unsqueeze",
    ".signal": "DFT MelWeightMatrix STFT TensorScatter",
    ".strings": "Cast Concat Equal Gather RegexFullMatch Reshape Shape Size Squeeze StringConcat StringNormalizer "
        "StringSplit TfIdfVectorizer Transpose Unsqueeze Where",
    ".tensor": "BitCast Cast CastLike Concat DepthToSpace ReverseSequence Slice SpaceToDepth Split Transpose Trilu "
        "Where",
    ".training": "ai.onnx.preview.training/Adagrad ai.onnx.preview.training/Adam ai.onnx.preview.training/Gradient "
        "ai.onnx.preview.training/Momentum",
    ".trees": "ai.onnx.ml/TreeEnsemble ai.onnx.ml/TreeEnsembleClassifier ai.onnx.ml/TreeEnsembleRegressor",
    ".vectors": "ai.onnx.ml/SVMClassifier ai.onnx.ml/SVMRegressor",
}
